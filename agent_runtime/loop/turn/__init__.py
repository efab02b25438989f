"""One turn: its model calls, its tool calls and the chunks that they produce."""
