"""The use of one MCP server over all its connections: handshake, listing, calls, reconnects."""
