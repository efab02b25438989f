"""Requests to the public web: address checks, host patterns, and the client that fetches pages."""
