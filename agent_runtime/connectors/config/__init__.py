"""The operator's MCP configuration: read, checked, and explained where it is wrong."""
