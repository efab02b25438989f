"""Compaction: when a conversation is summarised, and the agent that writes the summary."""
