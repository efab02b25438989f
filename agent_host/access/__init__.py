"""Who may do what: the operator, and agents by tokens of their own."""

from .guard import AccessGuard, HostCaller, identify, require_operator
from .tokens import OPERATOR, TokenStore, check_agent_id

__all__ = ["OPERATOR", "AccessGuard", "HostCaller", "TokenStore", "check_agent_id", "identify", "require_operator"]
