"""Use the prompt caches of providers, and watch whether they work.

The additions to a request depend on the model's card. Marks are inserted into the bytes of the first and the last
message when a request is sent. The messages themselves never change, so without its marks every request extends the one
before.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence

from agent_common.protocol import Caching, Usage
from agent_common.telemetry import logger

from ..ports import Clock, ModelRequest

MIN_CACHED_TOKENS = 1024
"""Shorter prompts are not cached by any provider."""
WARM_SECONDS = 240.0
"""Seconds for which a prompt is certainly cached; providers promise five minutes."""
COLD_AFTER_MISSES = 5
"""Consecutive steps without a cache hit after which a model counts as cold."""
MAX_SESSIONS = 256
"""Maximum sessions that are watched."""
_CONTENT = b'"content":"'
_TEXT = b'"content":[{"type":"text","text":"'
_MARK = b',"cache_control":{"type":"ephemeral"}}]}'

log = logger(__name__)


def cache_key(session: str) -> str:
    """Return a key that is the same for all requests of a session and does not reveal its id."""
    return hashlib.blake2s(session.encode(), digest_size=16).hexdigest()


def with_cache_marks(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return the messages with a mark on the first and the last, up to which the provider should cache the prompt."""
    if len(messages) < 2:
        return [_with_mark(message) for message in messages]
    return [_with_mark(messages[0]), *messages[1:-1], _with_mark(messages[-1])]


def _with_mark(message: bytes) -> bytes:
    """Return the message with its text as a part that carries the mark; without text, return it unchanged."""
    head, key, rest = message.partition(_CONTENT)  # not inside a string, where quotes would be escaped
    if not key or not rest.endswith(b'"}') or rest == b'"}':
        return message
    return b"".join((head, _TEXT, rest[:-1], _MARK))


class CacheWatch:
    """Counts what caches have served, and finds models whose prompts should be cached but never are, which costs money
    without any error."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.cold_models: set[str] = set()
        """Models that currently count as cold."""
        self._warned_models: set[str] = set()
        self._misses: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
        self._cached: Counter[str] = Counter()
        """Tokens of prompts by model, and how many of them were read from a cache."""
        self._prompts: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()
        """(model, session) -> monotonic time and prompt tokens of the last call."""

    def hit_rates(self) -> dict[str, float]:
        """Return by model which share of its prompts was read from a cache since the start."""
        return {model: round(self._cached[model] / sent, 4) for model, sent in sorted(self._sent.items()) if sent}

    def record_usage(self, model: str, session: str, usage: Usage, *, watched: bool = True) -> None:
        """Evaluate the reported usage of a model of the catalog. `watched`: its provider should have cached it."""
        prompt = usage.input + usage.cache_read + usage.cache_write
        self._sent[model] += prompt
        self._cached[model] += usage.cache_read
        if not watched:
            return
        now = self._clock.monotonic()
        asked = (model, session)
        before = self._prompts.pop(asked, None)
        self._prompts[asked] = (now, prompt)
        if len(self._prompts) > MAX_SESSIONS:
            self._prompts.popitem(last=False)
        if usage.cache_read:
            self._misses[model] = 0
            self.cold_models.discard(model)
        elif before is not None and now - before[0] <= WARM_SECONDS and before[1] >= MIN_CACHED_TOKENS:
            self._missed(model)

    def _missed(self, model: str) -> None:
        self._misses[model] += 1
        if self._misses[model] < COLD_AFTER_MISSES:
            return
        self.cold_models.add(model)
        if model not in self._warned_models:
            self._warned_models.add(model)
            log.warning("the provider's prompt cache is never hit: every step pays for its whole prompt", model=model)


def cache_fields(caching: Caching, request: ModelRequest) -> dict[str, str]:
    """Return the further fields of a request that its provider's cache needs."""
    return {"prompt_cache_key": cache_key(request.session_id)} if caching == "key" and request.session_id else {}
