"""The prompt cache: what is read and written follows from the breakpoints, as the API documents it."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

MIN_TOKENS = 1024
LOOKBACK = 20
"""Blocks before a breakpoint at which the beginning of an earlier request is found."""
TTL_SECONDS = 300.0
MOST_ENTRIES = 10_000
TOKEN_BYTES = 4


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of a prompt, in three amounts that do not overlap."""

    input: int
    cache_read: int
    cache_write: int

    @property
    def total(self) -> int:
        return self.input + self.cache_read + self.cache_write


class PromptCache:
    """Remembers the beginnings of prompts up to their breakpoints. Four bytes are a token."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._entries: OrderedDict[bytes, float] = OrderedDict()

    def use(self, fields: dict[str, Any]) -> PromptTokens:
        """Count a request, and remember its beginnings."""
        digests: list[bytes] = []
        sizes: list[int] = []
        marks: list[int] = []
        digest = hashlib.sha256(str(fields.get("model")).encode())
        size = 0
        for at, (piece, marked) in enumerate(_pieces(fields)):
            digest.update(piece)
            size += len(piece)
            digests.append(digest.digest())
            sizes.append(-(-size // TOKEN_BYTES))
            marks += [at] if marked else []
        total = sizes[-1] if sizes else 0
        marks = [at for at in marks if sizes[at] >= MIN_TOKENS]
        if not marks:
            return PromptTokens(total, 0, 0)
        read = max((sizes[at] for mark in marks for at in self._found(digests, mark)), default=0)
        for mark in marks:
            self._remember(digests[mark])
        return PromptTokens(total - sizes[marks[-1]], read, sizes[marks[-1]] - read)

    def _found(self, digests: list[bytes], mark: int) -> list[int]:
        """Return the latest remembered place within reach of a breakpoint, if there is one."""
        for at in range(mark, max(-1, mark - LOOKBACK), -1):
            if self._entries.get(digests[at], 0.0) > self._now():
                self._remember(digests[at])
                return [at]
        return []

    def _remember(self, digest: bytes) -> None:
        self._entries.pop(digest, None)
        self._entries[digest] = self._now() + TTL_SECONDS
        if len(self._entries) > MOST_ENTRIES:
            self._entries.popitem(last=False)


def _pieces(fields: dict[str, Any]) -> list[tuple[bytes, bool]]:
    """Return the prompt in the order in which it is cached (tools, system, messages), and where its breakpoints are.

    A change of `tool_choice` or `thinking` changes the messages for the cache, though not tools and system.
    """
    pieces = [_piece(tool) for tool in _objects(fields.get("tools"))]
    pieces += [_piece(block) for block in _objects(fields.get("system"))]
    how: Any = [fields.get("tool_choice"), fields.get("thinking")]
    for message in _objects(fields.get("messages")):
        for block in _objects(message.get("content")):
            piece, marked = _piece(block)
            pieces.append((json.dumps([message.get("role"), how]).encode() + piece, marked))
    if fields.get("cache_control") and pieces:
        pieces[-1] = pieces[-1][0], True
    return pieces


def _piece(block: dict[str, Any]) -> tuple[bytes, bool]:
    rest = {name: value for name, value in block.items() if name != "cache_control"}
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    ), "cache_control" in block


def _objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return cast("list[dict[str, Any]]", value) if isinstance(value, list) else []
