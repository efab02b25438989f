"""Two agents share a board and hand off: a researcher finds out, a writer asks back (docs/tutorials/two-agents.md)."""
