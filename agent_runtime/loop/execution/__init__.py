"""Run one turn, record it, and write its end to the disk."""
