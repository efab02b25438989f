"""The connection to the host: dialing, identity, frames, and the gate for side effects."""
