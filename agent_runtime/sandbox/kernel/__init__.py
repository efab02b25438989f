"""Kernel interfaces: seccomp filters, process trees, priorities."""
