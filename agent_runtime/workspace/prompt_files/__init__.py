"""Files that become part of the system prompt."""
