"""For whom a scoped token speaks: users by their names, and users whose names begin in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InvalidRequest
from .agent_ids import OPERATOR

MAX_PATTERNS = 100
MAX_NAME = 95
"""Characters of a name. A token's owner is `user:NAME`, and its column holds 100."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UserSet:
    """Users by exact names and by prefixes. Code points are compared: neither case nor Unicode forms are folded."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str) -> UserSet:
        return cls(frozenset({name}))

    @classmethod
    def from_patterns(cls, patterns: Sequence[str]) -> UserSet:
        names = frozenset(text for text in patterns if not text.endswith("*"))
        return cls(names, tuple(sorted({text[:-1] for text in patterns if text.endswith("*")})))

    def __contains__(self, user: str) -> bool:
        return user in self.names or user.startswith(self.prefixes)

    @property
    def only(self) -> str | None:
        """The user, if it is one exact name."""
        return next(iter(self.names)) if len(self.names) == 1 and not self.prefixes else None

    @property
    def patterns(self) -> list[str]:
        """The names, and the prefixes with a `*` behind them."""
        return sorted([*self.names, *(f"{prefix}*" for prefix in self.prefixes)])

    def __str__(self) -> str:
        """Return the patterns for a message, the first few of many."""
        patterns = self.patterns
        more = [f"{len(patterns) - _SHOWN} more"] if len(patterns) > _SHOWN else []
        return ", ".join([*map(repr, patterns[:_SHOWN]), *more])


def parse_users(patterns: Sequence[str], field: str = "users") -> UserSet:
    """Parse names such as `ann` and patterns such as `telegram:*`. Raises InvalidRequest that names `field`."""
    if not patterns:
        raise _fault(field, "name at least one user")
    if len(patterns) > MAX_PATTERNS:
        raise _fault(field, f"name at most {MAX_PATTERNS} users")
    for text in patterns:
        if text.endswith("*"):
            _check_prefix(text[:-1], field)
        else:
            check_user_name(text, field)
    return UserSet.from_patterns(patterns)


def check_user_name(name: str, field: str) -> str:
    """Return the exact name of a user other than the operator. Raises InvalidRequest that names `field`."""
    if not _is_plain(name):
        raise _fault(field, f"must be 1 to {MAX_NAME} printable characters, without spaces around them")
    if "*" in name:
        raise _fault(field, "must be one user's name, without `*`; `users` of a token takes patterns")
    if name == OPERATOR:
        raise _fault(field, "is the operator's own name, for which no scoped token speaks; choose another")
    return name


def _check_prefix(prefix: str, field: str) -> None:
    if not prefix:
        raise _fault(field, "a pattern must say how the names begin, such as `telegram:*`; `*` alone is every user")
    if not _is_plain(prefix) or "*" in prefix:
        raise _fault(field, f"a pattern is 1 to {MAX_NAME} printable characters and one `*` at the end")
    if OPERATOR.startswith(prefix):
        raise _fault(field, f"`{prefix}*` would match {OPERATOR!r}, for which no scoped token speaks; make it longer")


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME and text.isprintable() and text == text.strip()


def _fault(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", faults=[(field, message)])
