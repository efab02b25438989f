"""Logs, traces, metrics. Used by all rooms, uses none."""

from .logs import Logger, configure, logger

__all__ = ["Logger", "configure", "logger"]
