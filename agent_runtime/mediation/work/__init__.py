"""Work requests: accepted, run as turns, followed to their end."""
