"""Transports to MCP servers: stdio to confined programs, and HTTP with OAuth."""
