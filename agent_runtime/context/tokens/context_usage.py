"""Measure how full the window of one conversation is.

The tokens that the model reported for the last request are the base; only what was added since is estimated. So an
error of the estimate concerns a part of the window, and the next report corrects it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.completions import OverflowReport, overflow_of
from agent_common.telemetry import logger

from .calibration import MAX_FACTOR, MIN_FACTOR, TokenCalibration, near
from .estimate import estimate, estimate_prompt, estimate_text, estimate_tools

MIN_EXPECTED_RATIO = 0.6
MAX_EXPECTED_RATIO = 2.0
"""A report outside these multiples of the expected tokens must come twice to be believed."""
log = logger(__name__)
CUT_SHARE = 0.6
CUT_GROWTH = 1.2
CUT_AGREEMENT = 1.05
"""A request that has grown by CUT_GROWTH since the model has counted more than before (CUT_AGREEMENT), and of which it
counts less than CUT_SHARE of the estimate, was cut."""
CUT_DROP = 0.5
"""A count below this share of an earlier one shows no window: the model has left out what its cache has served."""
MIN_CUT_WINDOW = 1024
"""Tokens; no window is smaller."""
AGREEMENT_RATIO = 1.15
"""Two such reports agree if they differ by less than this factor."""
SHOWN_SCHEMA_SHARE = 0.7
"""Share of the JSON of tools that OpenAI's models are shown; other models are mostly shown all of it."""


@dataclass(frozen=True, slots=True)
class _Base:
    """A request whose tokens the model has reported."""

    messages: int
    estimated: float
    """Tokens by the estimate, without the calibration's factor."""
    reported: int
    first: bytes
    tools: bytes | None


class ContextUsage:
    """Measures one conversation. Messages are appended, and each is estimated once; the first one may be replaced. Call
    `reset` when the conversation was rewritten (compaction, rewind); one that has become shorter, or has another last
    message, is noticed without it."""

    def __init__(self, calibration: TokenCalibration) -> None:
        self.calibration = calibration
        """The calibration of the model that answers; `switch_calibration` changes it."""
        self.reset()

    def reset(self) -> None:
        """Forget the conversation, which was rewritten. The model's calibration stays."""
        self._sums: list[float] = [0.0]
        """Element n: estimated tokens of the first n messages, without the factor."""
        self._first = self._last = b""
        self._tools: bytes | None = None
        self._schemas = 0.0
        """Estimated tokens of the tools' schemas, without the factor."""
        self._base: _Base | None = None
        self._highest: tuple[float, int] | None = None
        """Estimated and reported tokens of the last request of which more was reported than of those before."""
        self._doubt: float | None = None
        """Reported tokens per estimated one, of a report that is not believed yet."""

    def switch_calibration(self, calibration: TokenCalibration) -> None:
        """Use another model's calibration, and forget the reports of the one before."""
        if calibration is not self.calibration:
            self.calibration = calibration
            self._tools = None
            self._schemas = 0.0
            self._base = self._doubt = self._highest = None

    # -- estimates

    def occupancy(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        """Return the tokens of a request with these messages and tools. Only what is new takes time."""
        self._measure(messages)
        if tools != self._tools:
            shown = SHOWN_SCHEMA_SHARE if self.calibration.encoding else 1.0
            self._tools = tools
            self._schemas = estimate_tools(tools) * shown if tools else 0.0
        return self._tokens(self._sums[-1] + self._schemas)

    def costs(self, messages: Sequence[bytes]) -> list[int]:
        """Return the tokens of each message by itself."""
        self._measure(messages)
        factor = self.calibration.factor
        return [round((upto - before) * factor) for before, upto in zip(self._sums, self._sums[1:], strict=False)]

    def text_tokens(self, text: str) -> int:
        """Return the tokens of a text by itself, at least one."""
        return max(1, round(estimate_text(text) * self.calibration.factor))

    # -- reports of the model

    def record_count(self, messages_sent: int, prompt_tokens: int) -> None:
        """Learn from the input tokens that the model reports for the request measured last, of `messages_sent`
        messages. An impossible number changes nothing."""
        if not 0 < messages_sent < len(self._sums):
            return
        estimated = self._sums[messages_sent] + self._schemas
        before = self._highest
        now = (estimated, prompt_tokens)
        if before is None or estimated < before[0] or prompt_tokens > before[1] * CUT_AGREEMENT:
            self._highest = now
        elif _was_cut(before, now):
            self._learn_cut(prompt_tokens)
            return
        if not MIN_FACTOR * estimated <= prompt_tokens <= MAX_FACTOR * estimated:
            return
        if not self._believes(estimated, prompt_tokens):
            return
        if self._base is not None and self._is_prefix(self._base):
            self.calibration.learn(estimated - self._base.estimated, prompt_tokens - self._base.reported)
        self.calibration.learn(estimated, prompt_tokens, whole_request=True)
        self._base = _Base(messages_sent, estimated, prompt_tokens, self._first, self._tools)

    def record_overflow(self, why: str) -> OverflowReport | None:
        """Learn from the error text `why` that the request measured last did not fit: it had as many tokens as the
        error says, or more than the window that it names. That is believed at once. Return the sizes that the error
        states; None if it states none."""
        report = overflow_of(why)
        if report is None:
            return None
        at_least = report.actual or (report.limit or 0) + 1
        estimated = self._sums[-1] + self._schemas
        if estimated and at_least > self._tokens(estimated):
            if not report.with_reply:
                self.calibration.learn(estimated, at_least, whole_request=True, trusted=True)
            self._base = _Base(len(self._sums) - 1, estimated, at_least, self._first, self._tools)
        return report

    # -- helpers

    def _learn_cut(self, prompt_tokens: int) -> None:
        """Learn the window of a model that drops the beginning of a prompt and says nothing."""
        if self.calibration.limit is None or prompt_tokens < self.calibration.limit:
            self.calibration.learn_window(prompt_tokens)
            log.warning(
                "the model's window is smaller than thought: it has dropped a part of the prompt",
                model=self.calibration.model,
                window=prompt_tokens,
            )
        self._base = self._doubt = None

    def _is_prefix(self, base: _Base) -> bool:
        """Return whether the counted request is still the beginning of what is sent."""
        return base.first == self._first and base.tools == self._tools

    def _believes(self, estimated: float, reported: int) -> bool:
        """Return whether a report is near the expected tokens, or agrees with the report before it."""
        expected = self._tokens(estimated)
        ratio = reported / estimated
        unknown = self._base is None and not self.calibration.calibrated
        if unknown or expected * MIN_EXPECTED_RATIO <= reported <= expected * MAX_EXPECTED_RATIO:
            self._doubt = None
            return True
        doubted = self._doubt
        self._doubt = ratio
        return doubted is not None and near(doubted, ratio, AGREEMENT_RATIO)

    def _tokens(self, estimated: float) -> int:
        """Convert an estimate to tokens of this model, counted from the last report if there is one."""
        if self._base is None:
            return round(estimated * self.calibration.factor)
        return max(0, round(self._base.reported + (estimated - self._base.estimated) * self.calibration.factor))

    def _measure(self, messages: Sequence[bytes]) -> None:
        known = len(self._sums) - 1
        if len(messages) < known or (known > 1 and messages[known - 1] != self._last):
            self.reset()
            known = 0
        if known and messages[0] != self._first:  # another agent answers, with a system prompt of its own
            change = estimate_prompt(messages[0]) - self._sums[1]
            self._sums[1:] = [total + change for total in self._sums[1:]]
        for number, message in enumerate(messages[known:], known):
            tokens = estimate(message) if number else estimate_prompt(message)
            self._sums.append(self._sums[-1] + tokens)
        if messages:
            self._first = messages[0]
            self._last = messages[-1]


def _was_cut(before: tuple[float, int], now: tuple[float, int]) -> bool:
    """Return whether a prompt was cut: it has grown, and what the model counts of it stands still far below it."""
    estimated_before, reported_before = before
    estimated, reported = now
    grew = estimated >= estimated_before * CUT_GROWTH
    return grew and max(MIN_CUT_WINDOW, reported_before * CUT_DROP) <= reported < estimated * CUT_SHARE
