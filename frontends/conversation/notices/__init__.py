"""Notices: what people and the operator learn without having asked."""

from .host_events import HostEvents
from .operator import OperatorNotices

__all__ = ["HostEvents", "OperatorNotices"]
