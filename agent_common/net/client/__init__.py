"""The HTTP client of the hot path."""
