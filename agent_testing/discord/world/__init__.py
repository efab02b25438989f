"""What Discord keeps, and what changes it: everything but the wire."""
