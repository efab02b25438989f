"""Subagents: calls of other agents from within a turn."""
