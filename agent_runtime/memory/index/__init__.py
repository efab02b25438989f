"""The search index of memory, and what keeps it up to date."""
