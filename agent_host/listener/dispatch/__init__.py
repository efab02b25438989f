"""Decides which agent gets work, when, and what its answers mean."""
