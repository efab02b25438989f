"""Read and check the operator's MCP configuration."""
