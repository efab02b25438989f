"""Work requests: accept them, run them as turns, and follow them to their end."""
