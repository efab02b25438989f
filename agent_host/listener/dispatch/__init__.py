"""Decisions about work: when it is sent, what an agent's answers mean, when it is tried again."""
