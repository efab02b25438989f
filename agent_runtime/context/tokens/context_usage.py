"""How full one conversation's window is.

What the model reported for the last request is the base, and only what came since is estimated: an error of the
estimate concerns a part of the window, and the next report takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.protocol import Usage

from .calibration import MAX_FACTOR, MIN_FACTOR, TokenCalibration, near
from .estimate import estimate, estimate_json, estimate_text
from .overflow import OverflowReport, overflow_of

MIN_EXPECTED_RATIO, MAX_EXPECTED_RATIO = 0.6, 2.0
"""Times what was expected: a report beyond that must come twice to be believed."""
AGREEMENT_RATIO = 1.15
"""Two such reports are one and the same when they differ less than so many times."""
SHOWN_SCHEMA_SHARE = 0.7
"""Share of the JSON of tools that OpenAI's models are shown; other models are mostly shown all of it."""


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

    def __init__(self, calibration: TokenCalibration) -> None:
        self._calibration = calibration
        self.reset()

    @property
    def calibration(self) -> TokenCalibration:
        """Of the model that answers."""
        return self._calibration

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

    def switch_calibration(self, calibration: TokenCalibration) -> None:
        """From now on another model answers: what the one before has reported says little about it."""
        if calibration is not self._calibration:
            self._calibration = calibration
            self._tools, self._schemas = None, 0.0
            self._base = self._doubt = None

    # -- what it costs

    def occupancy(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        """Tokens of the prompt that these messages and tools make. Takes time for what is new since the last time."""
        self._measure(messages)
        if tools != self._tools:
            shown = SHOWN_SCHEMA_SHARE if self._calibration.encoding else 1.0
            self._tools, self._schemas = tools, estimate_json(tools) * shown if tools else 0.0
        return self._tokens(self._sums[-1] + self._schemas)

    def costs(self, messages: Sequence[bytes]) -> list[int]:
        """Tokens of each message by itself."""
        self._measure(messages)
        factor = self._calibration.factor
        return [round((upto - before) * factor) for before, upto in zip(self._sums, self._sums[1:], strict=False)]

    def text_tokens(self, text: str) -> int:
        """Tokens of a text by itself, at least one."""
        return max(1, round(estimate_text(text) * self._calibration.factor))

    # -- what the model says

    def record_report(self, messages_sent: int, usage: Usage) -> None:
        """Takes in what the model says it was sent: the request that `occupancy` was asked about last, with so many
        messages. A report that cannot be true changes nothing."""
        self.record_count(messages_sent, usage.input + usage.cache_read + usage.cache_write)

    def record_count(self, messages_sent: int, prompt_tokens: int) -> None:
        """The same from the number itself."""
        if not 0 < messages_sent < len(self._sums):
            return
        estimated = self._sums[messages_sent] + self._schemas
        if not MIN_FACTOR * estimated <= prompt_tokens <= MAX_FACTOR * estimated:
            return
        if not self._believes(estimated, prompt_tokens):
            return
        if self._base is not None and self._is_prefix(self._base):
            self._calibration.learn(estimated - self._base.estimated, prompt_tokens - self._base.reported)
        self._calibration.learn(estimated, prompt_tokens, whole_request=True)
        self._base = _Base(messages_sent, estimated, prompt_tokens, self._first, self._tools)

    def record_overflow(self, why: str) -> OverflowReport | None:
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
                self._calibration.learn(estimated, at_least, whole_request=True, trusted=True)
            self._base = _Base(len(self._sums) - 1, estimated, at_least, self._first, self._tools)
        return said

    # -- helpers

    def _is_prefix(self, base: _Base) -> bool:
        """What was counted then is still the beginning of what is sent."""
        return base.first == self._first and base.tools == self._tools

    def _believes(self, estimated: float, reported: int) -> bool:
        """Whether a report is near to what was expected, or the second one in a row to say the same."""
        expected, ratio = self._tokens(estimated), reported / estimated
        unknown = self._base is None and not self._calibration.calibrated
        if unknown or expected * MIN_EXPECTED_RATIO <= reported <= expected * MAX_EXPECTED_RATIO:
            self._doubt = None
            return True
        doubted, self._doubt = self._doubt, ratio
        return doubted is not None and near(doubted, ratio, AGREEMENT_RATIO)

    def _tokens(self, estimated: float) -> int:
        """Tokens of this model: on top of the last report, where there is one."""
        if self._base is None:
            return round(estimated * self._calibration.factor)
        return max(0, round(self._base.reported + (estimated - self._base.estimated) * self._calibration.factor))

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
