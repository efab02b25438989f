"""Endpoints by URL (TCP, unix socket, vsock): parse, listen, connect."""
