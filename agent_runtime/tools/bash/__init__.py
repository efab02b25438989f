"""The `bash` tool."""
