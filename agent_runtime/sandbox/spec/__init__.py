"""What one command may see, change and use up."""
