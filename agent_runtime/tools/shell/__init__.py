"""What a shell script runs, read for permission rules."""
