"""Record a turn while it runs, repair the record after a crash, and replay it."""
