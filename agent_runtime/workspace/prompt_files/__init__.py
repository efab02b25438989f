"""The files that become part of the system prompt."""
