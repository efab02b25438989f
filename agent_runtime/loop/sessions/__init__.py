"""Sessions as a resource: reading, changing, branching, status and cost."""
