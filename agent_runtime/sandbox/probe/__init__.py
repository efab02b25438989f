"""Tries a backend for real before the server trusts it."""
