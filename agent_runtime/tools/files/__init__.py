"""Tools for files: `read`, `write`, `edit`, `glob`, `grep`."""
