"""Transports to MCP servers: confined programs over stdio, and HTTP with OAuth."""
