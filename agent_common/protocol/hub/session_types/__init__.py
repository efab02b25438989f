"""The types of sessions. A type is pure: what a session allows follows from its envelopes alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from .base import Knobs, SessionType, read_knobs
from .consulting import Consulting
from .conversation import Conversation
from .discussion import Discussion
from .graph import (
    Always,
    ContextEquals,
    FromSpeaker,
    RevertToInitiator,
    RoundRobin,
    Stay,
    Terminate,
    ToAgent,
    ToolCalled,
    Transition,
    TransitionGraph,
)
from .workflow import Workflow

SESSION_TYPES: Mapping[str, SessionType[Any]] = MappingProxyType(
    {kind.name: kind for kind in (Consulting(), Conversation(), Discussion(), Workflow())}
)
"""The types that a hub knows unless it is told of more, by name."""


@cache
def state_adapter(state_type: type[Any]) -> TypeAdapter[Any]:
    """Writes and reads states of one type as JSON."""
    return TypeAdapter(state_type)


__all__ = [
    "SESSION_TYPES",
    "Always",
    "Consulting",
    "ContextEquals",
    "Conversation",
    "Discussion",
    "FromSpeaker",
    "Knobs",
    "RevertToInitiator",
    "RoundRobin",
    "SessionType",
    "Stay",
    "Terminate",
    "ToAgent",
    "ToolCalled",
    "Transition",
    "TransitionGraph",
    "Workflow",
    "read_knobs",
    "state_adapter",
]
