"""The search index of memory: its tables, terms and vectors."""
