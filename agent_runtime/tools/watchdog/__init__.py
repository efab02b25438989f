"""Checks every call against the rules of a policy file."""
