"""The audit trail of the listener."""
