"""What the HTTP APIs of guest and host share: one limit for bodies, one shape for errors.

Beside `agent_common.http`, because it loads starlette, and a guest's port is open before that.
"""

from .body_limit import BodyLimits, BodyRefused, LimitedBody, release_body
from .problems import error_response, problem_response

__all__ = ["BodyLimits", "BodyRefused", "LimitedBody", "error_response", "problem_response", "release_body"]
