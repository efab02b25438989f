"""What the HTTP APIs of guest and host share: one limit for bodies, one shape for errors.

Beside `agent_common.http`, because it loads FastAPI, and a guest's port is open before that.
"""

from .body_limit import BodyLimits, BodyRefused, LimitedBody, release_body, shrink_body
from .problems import error_response, problem_response
from .range_requests import RangeNotSatisfiable, parse_range
from .routers import add_routers
from .telemetry import NO_TELEMETRY

__all__ = [
    "NO_TELEMETRY",
    "BodyLimits",
    "BodyRefused",
    "LimitedBody",
    "RangeNotSatisfiable",
    "add_routers",
    "error_response",
    "parse_range",
    "problem_response",
    "release_body",
    "shrink_body",
]
