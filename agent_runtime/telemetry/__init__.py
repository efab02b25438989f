"""Logs, traces, metrics. Used by all rooms, uses none."""

from .logs import configure

__all__ = ["configure"]
