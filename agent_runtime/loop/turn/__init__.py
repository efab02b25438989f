"""One turn: model calls, tool calls, and the stream of chunks they make."""
