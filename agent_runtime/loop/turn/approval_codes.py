"""Codes of approvals: short texts that a person types to answer one call, and no other."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

LETTERS = "ACEFHJKMNPRTVWXY"
DIGITS = "3456789"
"""Without characters that look or sound like others."""
_PAIRS = len(LETTERS) * len(DIGITS)


async def _none() -> set[str]:
    return set()


class ApprovalCodes:
    """Makes codes that a session has never used. They are random, so that no model can know one before it is shown."""

    def __init__(self, read_used: Callable[[], Awaitable[set[str]]] = _none) -> None:
        """`read_used` returns the codes of the session's earlier approvals. It is called before the first new one."""
        self._read_used = read_used
        self._used: set[str] | None = None

    async def new(self) -> str:
        """Return a code: a letter and a digit, or several such pairs once half of the shorter codes are used."""
        if self._used is None:
            self._used = await self._read_used()
        pairs = 1
        while 2 * sum(len(code) == 2 * pairs for code in self._used) >= _PAIRS**pairs:
            pairs += 1
        code = _random_code(pairs)
        while code in self._used:
            code = _random_code(pairs)
        self._used.add(code)
        return code


def _random_code(pairs: int) -> str:
    return "".join(secrets.choice(LETTERS) + secrets.choice(DIGITS) for _ in range(pairs))
