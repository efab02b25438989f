"""Decide when turns run: one at a time per session, as many sessions as there are slots."""
