"""Calls of other agents from within a turn."""
