"""Checks a plugin in a fresh worker before it is offered."""
