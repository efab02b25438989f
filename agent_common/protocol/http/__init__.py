"""The messages of the runtime's HTTP API; `agent_common.protocol` exports their names."""
