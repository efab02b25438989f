"""The listener's HTTP routes for the operator."""
