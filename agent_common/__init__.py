"""What the guest and the host share. It imports neither of them."""
