"""Connections of agents: sockets, handshake, sessions, parsing of frames."""
