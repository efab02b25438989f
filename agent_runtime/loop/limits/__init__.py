"""Limits of a turn in steps, tokens, dollars and bytes, and what counts against them."""
