"""Authentication of callers: the operator and agents, each by bearer tokens."""

from .guard import AccessGuard, HostCaller, identify, require_operator
from .tokens import OPERATOR, TokenStore, check_agent_id

__all__ = ["OPERATOR", "AccessGuard", "HostCaller", "TokenStore", "check_agent_id", "identify", "require_operator"]
