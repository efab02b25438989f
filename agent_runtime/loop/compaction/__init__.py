"""Compaction: decides when a conversation is summarized, and runs the agent that writes the summary."""
