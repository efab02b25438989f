"""The one error of the sandbox that is not a ToolFailure."""

from __future__ import annotations


class BackendUnavailable(Exception):
    """A program or a kernel feature that the backend needs is missing; the text names it."""
