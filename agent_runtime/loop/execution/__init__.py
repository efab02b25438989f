"""Run one turn, record it, and bring its end to the disk."""
