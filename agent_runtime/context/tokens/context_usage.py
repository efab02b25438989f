"""How full one conversation's window is.

What the model reported for the last request is the base, and only what came since is estimated: an error of the
estimate concerns a part of the window, and the next report takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.protocol import Usage

from .calibration import HIGHEST, LOWEST, TokenCalibration, near
from .estimate import estimate, estimate_json, estimate_text
from .exact import ExactCounter
from .overflow import OverflowReport, overflow_of

FEWER, MORE = 0.6, 2.0
"""Times what was expected: a report beyond that must come twice to be believed."""
AGREED = 1.15
"""Two such reports are one and the same when they differ less than so many times."""
SHOWN = 0.7
"""What of the JSON of tools OpenAI's models are shown (see `recipe`); others are mostly shown all of it."""


@dataclass(frozen=True, slots=True)
class _Base:
    """A request that the model has counted."""

    messages: int
    estimated: float
    """Tokens, without the factor."""
    reported: int
    first: bytes
    tools: bytes | None


class ContextUsage:
    """Measures one conversation. Messages are appended, and each is estimated once; the first one may be replaced.
    `reset` tells of a conversation that was written anew (compaction, rewind); one that has become shorter, or has
    another message where it ended, is noticed without it."""

    def __init__(self, meter: TokenCalibration) -> None:
        self._meter = meter
        self.reset()

    @property
    def reported_once(self) -> bool:
        """Whether the model has counted a part of this conversation: then little is left to be estimated."""
        return self._base is not None

    @property
    def meter(self) -> TokenCalibration:
        """Of the model that answers."""
        return self._meter

    def reset(self) -> None:
        """The conversation has been written anew. What was learnt about the model stays."""
        self._sums: list[float] = [0.0]
        """Estimated tokens of the first so many messages, without the factor."""
        self._first = self._last = b""
        self._tools: bytes | None = None
        self._schemas = 0.0
        """Estimated tokens of the tools, without the factor."""
        self._base: _Base | None = None
        self._doubt: float | None = None
        """Reported per estimated token, of a report that was not believed."""
        self._exact: ExactCounter | None = None

    def use(self, meter: TokenCalibration) -> None:
        """From now on another model answers: what the one before has reported says little about it."""
        if meter is not self._meter:
            self._meter, self._exact = meter, None
            self._tools, self._schemas = None, 0.0
            self._base = self._doubt = None

    # -- what it costs

    def occupancy(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        """Tokens of the prompt that these messages and tools make. Takes time for what is new since the last time."""
        self._measure(messages)
        if tools != self._tools:
            shown = SHOWN if self._meter.encoding else 1.0
            self._tools, self._schemas = tools, estimate_json(tools) * shown if tools else 0.0
        return self._tokens(self._sums[-1] + self._schemas)

    def costs(self, messages: Sequence[bytes]) -> list[int]:
        """Tokens of each message by itself."""
        self._measure(messages)
        factor = self._meter.factor
        return [round((upto - before) * factor) for before, upto in zip(self._sums, self._sums[1:], strict=False)]

    def text(self, text: str) -> int:
        """Tokens of a text by itself, at least one."""
        return max(1, round(estimate_text(text) * self._meter.factor))

    async def exact(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        """As `occupancy`, but counted and not estimated where the model's encoding is known: what came since the last
        report, or all. For other models the estimate is the best there is."""
        now = self.occupancy(messages, tools)
        if self._meter.encoding is None:
            return now
        if self._exact is None or self._exact.name != self._meter.encoding:
            self._exact = ExactCounter(self._meter.encoding)
        base = self._base
        if base is not None and self._holds(base):
            return base.reported + await self._exact.messages(messages, base.messages)
        return await self._exact.request(messages, tools)

    # -- what the model says

    def reported(self, messages_sent: int, usage: Usage) -> None:
        """Takes in what the model says it was sent: the request that `occupancy` was asked about last, with so many
        messages. A report that cannot be true changes nothing."""
        self.counted(messages_sent, usage.input + usage.cache_read + usage.cache_write)

    def counted(self, messages_sent: int, prompt_tokens: int) -> None:
        """The same from the number itself."""
        if not 0 < messages_sent < len(self._sums):
            return
        estimated = self._sums[messages_sent] + self._schemas
        if not LOWEST * estimated <= prompt_tokens <= HIGHEST * estimated:
            return
        if not self._believes(estimated, prompt_tokens):
            return
        if self._base is not None and self._holds(self._base):
            self._meter.learn(estimated - self._base.estimated, prompt_tokens - self._base.reported)
        self._meter.learn(estimated, prompt_tokens, whole=True)
        self._base = _Base(messages_sent, estimated, prompt_tokens, self._first, self._tools)

    def refused(self, why: str) -> OverflowReport | None:
        """Takes in that the request that `occupancy` was asked about last did not fit: it had as many tokens as the
        error says, or more than the window that the error speaks of. That is believed at once. Returns the sizes in the
        error, none when it has none."""
        said = overflow_of(why)
        if said is None:
            return None
        at_least = said.actual or (said.limit or 0) + 1
        estimated = self._sums[-1] + self._schemas
        if estimated and at_least > self._tokens(estimated):
            if not said.with_reply:
                self._meter.learn(estimated, at_least, whole=True, sure=True)
            self._base = _Base(len(self._sums) - 1, estimated, at_least, self._first, self._tools)
        return said

    # -- helpers

    def _holds(self, base: _Base) -> bool:
        """What was counted then is still the beginning of what is sent."""
        return base.first == self._first and base.tools == self._tools

    def _believes(self, estimated: float, reported: int) -> bool:
        """Whether a report is near to what was expected, or the second one in a row to say the same."""
        expected, ratio = self._tokens(estimated), reported / estimated
        unknown = self._base is None and not self._meter.calibrated
        if unknown or expected * FEWER <= reported <= expected * MORE:
            self._doubt = None
            return True
        doubted, self._doubt = self._doubt, ratio
        return doubted is not None and near(doubted, ratio, AGREED)

    def _tokens(self, estimated: float) -> int:
        """Tokens of this model: on top of the last report, where there is one."""
        if self._base is None:
            return round(estimated * self._meter.factor)
        return max(0, round(self._base.reported + (estimated - self._base.estimated) * self._meter.factor))

    def _measure(self, messages: Sequence[bytes]) -> None:
        known = len(self._sums) - 1
        if len(messages) < known or (known > 1 and messages[known - 1] != self._last):
            self.reset()
            known = 0
        if known and messages[0] != self._first:  # another agent speaks: it has a prompt of its own
            change = estimate(messages[0]) - self._sums[1]
            self._sums[1:] = [total + change for total in self._sums[1:]]
        for message in messages[known:]:
            self._sums.append(self._sums[-1] + estimate(message))
        if messages:
            self._first, self._last = messages[0], messages[-1]
