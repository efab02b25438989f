"""Authentication of callers by bearer tokens: the operator, agents, and people in some workspaces."""

from .agent_ids import OPERATOR, check_agent_id
from .guard import AccessGuard, HostCaller, identify, identify_person, require_operator, require_person
from .named_user import speaking_user, visible_users
from .scope import TokenScope, check_scope, parse_duration
from .team_member import TeamMember, identify_member, may_watch
from .teams import DEFAULT_TEAM, Teams
from .tokens import TokenInfo, TokenStore, is_token_id, token_file
from .users import UserSet, check_user_name, parse_users

__all__ = [
    "DEFAULT_TEAM",
    "OPERATOR",
    "AccessGuard",
    "HostCaller",
    "TeamMember",
    "Teams",
    "TokenInfo",
    "TokenScope",
    "TokenStore",
    "UserSet",
    "check_agent_id",
    "check_scope",
    "check_user_name",
    "identify",
    "identify_member",
    "identify_person",
    "is_token_id",
    "may_watch",
    "parse_duration",
    "parse_users",
    "require_operator",
    "require_person",
    "speaking_user",
    "token_file",
    "visible_users",
]
