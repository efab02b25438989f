"""Requests to the public web: address checks, host patterns, and the one function that fetches a page."""
