"""What the guest and the host share. It imports neither of them."""

__version__ = "0.1.0"
DISTRIBUTION = "agent-runtime-mesh"
"""The name of the distribution; `agent-runtime` and the names of our packages are strangers' on the public index."""
