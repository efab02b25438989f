"""Prompt caches of providers: what is added to a request so that one is used, and a watch over whether it is.

What is added depends on the model's card. Marks are spliced into the bytes of the first and the last message when a
request is sent; the messages themselves are never changed, so every request extends the one before, marks aside.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence

from agent_common.protocol import Caching, Usage
from agent_common.telemetry import logger

from ..ports import Clock, ModelRequest

MIN_CACHED_TOKENS = 1024
"""A shorter prompt is cached by nobody."""
WARM_SECONDS = 240.0
"""For so long a prompt is surely still in the cache; providers promise five minutes."""
COLD_AFTER_MISSES = 5
"""Steps in a row that read nothing from the cache, after which the model counts as cold."""
MAX_SESSIONS = 256
"""That are watched."""
_CONTENT, _TEXT = b'"content":"', b'"content":[{"type":"text","text":"'
_MARK = b',"cache_control":{"type":"ephemeral"}}]}'

log = logger(__name__)


def cache_key(session: str) -> str:
    """The same for all requests of a session; it tells a provider nothing about it."""
    return hashlib.blake2s(session.encode(), digest_size=16).hexdigest()


def with_cache_marks(messages: Sequence[bytes]) -> Sequence[bytes]:
    """The messages with a mark on the first and the last: up to there the provider is to keep what it has read."""
    if len(messages) < 2:
        return [_with_mark(message) for message in messages]
    return [_with_mark(messages[0]), *messages[1:-1], _with_mark(messages[-1])]


def _with_mark(message: bytes) -> bytes:
    """The message with its text as a part that carries the mark. One without text stays as it is."""
    head, key, rest = message.partition(_CONTENT)  # in no string: there the quotes would be escaped
    if not key or not rest.endswith(b'"}') or rest == b'"}':
        return message
    return b"".join((head, _TEXT, rest[:-1], _MARK))


class CacheWatch:
    """Finds models that should serve prompts from their cache and never do: that costs money, and nobody would see."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.cold_models: set[str] = set()
        """Models that are known for it now."""
        self._warned_models: set[str] = set()
        self._misses: Counter[str] = Counter()
        self._prompts: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        """When a session has asked a model last, and how long that prompt was."""

    def record_usage(self, request: ModelRequest, usage: Usage) -> None:
        """Takes what a capable model reports of a request."""
        now, asked = self._clock.monotonic(), (request.model, request.session_id)
        before = self._prompts.pop(asked, None)
        self._prompts[asked] = (now, usage.input + usage.cache_read + usage.cache_write)
        if len(self._prompts) > MAX_SESSIONS:
            self._prompts.popitem(last=False)
        if usage.cache_read:
            self._misses[request.model] = 0
            self.cold_models.discard(request.model)
        elif before is not None and now - before[0] <= WARM_SECONDS and before[1] >= MIN_CACHED_TOKENS:
            self._missed(request.model)

    def _missed(self, model: str) -> None:
        self._misses[model] += 1
        if self._misses[model] < COLD_AFTER_MISSES:
            return
        self.cold_models.add(model)
        if model not in self._warned_models:
            self._warned_models.add(model)
            log.warning("the provider's prompt cache is never hit: every step pays for its whole prompt", model=model)


def cache_fields(caching: Caching, request: ModelRequest) -> dict[str, str]:
    """What else the head of a request says."""
    return {"prompt_cache_key": cache_key(request.session_id)} if caching == "key" and request.session_id else {}
