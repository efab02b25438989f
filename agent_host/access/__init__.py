"""Who may do what: the operator, and agents by tokens of their own."""

from .guard import Caller, Guard, identify, operator
from .tokens import OPERATOR, TokenStore, check_agent_id

__all__ = ["OPERATOR", "Caller", "Guard", "TokenStore", "check_agent_id", "identify", "operator"]
