"""The sources of memory: facts, Markdown files, past sessions."""
