"""Constraints: the rules that the host gives its agent."""
