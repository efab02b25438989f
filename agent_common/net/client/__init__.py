"""HTTP clients: the pooled client of the hot path, and transports for libraries that bring their own client."""
