"""HTTP parts that all routes of the host share: body limits, JSON bodies, streams of events, problem responses."""

from . import problems
from .body_limit import MAX_BODY, MOST_HELD, BodyLimit
from .causes import cause_of
from .conditions import ALWAYS, Condition, parse_condition, parse_known
from .event_stream import EventStream
from .hot_routes import HotRoutes
from .json_route import Handler, JsonRoute, StrictRoute, ValueRoute
from .problems import openai_error

__all__ = [
    "ALWAYS",
    "MAX_BODY",
    "MOST_HELD",
    "BodyLimit",
    "Condition",
    "EventStream",
    "Handler",
    "HotRoutes",
    "JsonRoute",
    "StrictRoute",
    "ValueRoute",
    "cause_of",
    "openai_error",
    "parse_condition",
    "parse_known",
    "problems",
]
