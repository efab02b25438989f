"""HTTP parts that all routes of the host share: body limits, JSON bodies, streams of events, problem responses."""

from . import problems
from .body_limit import MAX_BODY, MOST_HELD, BodyLimit
from .causes import cause_of
from .event_stream import EventStream
from .json_route import JsonRoute, ValueRoute
from .problems import openai_error

__all__ = [
    "MAX_BODY",
    "MOST_HELD",
    "BodyLimit",
    "EventStream",
    "JsonRoute",
    "ValueRoute",
    "cause_of",
    "openai_error",
    "problems",
]
