"""The user for whom a request is made. A caller that speaks for several names one of them in `X-Agent-User`."""

from __future__ import annotations

from ..errors import Forbidden, InvalidRequest
from .guard import HostCaller
from .scope import TokenScope
from .users import UserSet, check_user_name

USER_HEADER = "X-Agent-User"
_RAW_HEADER = USER_HEADER.lower().encode()
Headers = list[tuple[bytes, bytes]]


def speaking_user(caller: HostCaller, headers: Headers) -> str | None:
    """Return the only user for whom this request may speak; None: the operator, who may name any.

    Raises InvalidRequest if a token of several users does not name one, and Forbidden if it names another.
    """
    scope = caller.scope
    if scope is None or scope.users.only is not None:
        return scope.users.only if scope else None  # the header is overwritten, whatever it says
    named = _named_in(headers)
    if named is None:
        raise _fault(f"is missing; this token speaks for {scope.users}, so name the user of this request in it")
    return _check_covered(scope, named, USER_HEADER)


def visible_users(caller: HostCaller, headers: Headers, asked: str | None) -> UserSet | None:
    """Return whose rows the caller sees: those of the user `asked`, or of all for whom it speaks; None: of all users.

    A token of several users may name one in the header too. Raises InvalidRequest, and Forbidden for others.
    """
    scope = caller.scope
    if scope is None:
        return UserSet.of(asked) if asked is not None else None
    if scope.users.only is None:
        named = _named_in(headers)
        if asked is not None and named not in (None, asked):
            message = f"is not the user of the header {USER_HEADER}; leave one out"
            raise InvalidRequest(f"user: {message}", faults=[("user", message)])
        asked = named if asked is None else check_user_name(asked, "user")
    return UserSet.of(_check_covered(scope, asked, "user")) if asked is not None else scope.users


def _named_in(headers: Headers) -> str | None:
    """Return the user in the header, or None. It must be there once, in UTF-8, and not be an empty or odd name."""
    values = [value for name, value in headers if name == _RAW_HEADER]
    if not values:
        return None
    if len(values) > 1:
        raise _fault("comes more than once; send it once")
    try:
        name = values[0].decode()
    except UnicodeDecodeError:
        raise _fault("is not UTF-8; send the name in UTF-8") from None
    return check_user_name(name, USER_HEADER)


def _check_covered(scope: TokenScope, user: str, field: str) -> str:
    if user not in scope.users:
        raise Forbidden(f"{field}: this token does not speak for {user!r}; it speaks for {scope.users}")
    return user


def _fault(message: str) -> InvalidRequest:
    return InvalidRequest(f"{USER_HEADER}: {message}", faults=[(USER_HEADER, message)])
