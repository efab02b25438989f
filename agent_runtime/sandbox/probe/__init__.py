"""Test a backend before the server relies on it."""
