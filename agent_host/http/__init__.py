"""HTTP parts that all routes of the host share: body limits, JSON bodies, problem responses."""

from . import problems
from .body_limit import MAX_BODY, MOST_HELD, BodyLimit
from .json_route import JsonRoute
from .problems import openai_error

__all__ = ["MAX_BODY", "MOST_HELD", "BodyLimit", "JsonRoute", "openai_error", "problems"]
