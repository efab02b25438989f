"""Convert tools of MCP servers into tools of the runtime."""
