"""Tools of MCP servers as tools of the runtime."""
