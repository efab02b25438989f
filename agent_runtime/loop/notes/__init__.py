"""Notes that the runtime adds to a user's message, and the daily log."""
