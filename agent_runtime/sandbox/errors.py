"""The error of the sandbox that is not a ToolFailure."""

from __future__ import annotations


class BackendUnavailable(Exception):
    """Raised if a program or a kernel feature that a backend needs is missing; the text names it."""
