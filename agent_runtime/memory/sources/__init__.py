"""What memory finds: facts, Markdown files, past sessions."""
