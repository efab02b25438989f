"""Decide when work is sent, what an agent's answers mean, and when work is retried."""
