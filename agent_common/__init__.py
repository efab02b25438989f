"""What the guest and the host share. It imports neither of them."""

__version__ = "0.1.0"
