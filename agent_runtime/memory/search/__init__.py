"""Queries: terms, candidates, ranking, and the answer."""
