"""Connections of agents: sockets, the handshake, sessions, and parsing of frames."""
