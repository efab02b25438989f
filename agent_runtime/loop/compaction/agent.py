"""Run the agent that summarizes conversations: on the same loop, for no principal, without tools
(docs/compaction.md#who-sums-up)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from agent_common.protocol import ModelCard, Usage

from ...agents import AgentDirectory, Manifest
from ...context import CompactionHistory, ContextUsage, ContextWindow, TokenCalibrations, digest
from ...errors import ModelError, ModelErrorCode
from ...ports import ToolContext
from ...sessions import text_of
from ..core.limits import TurnLimits, TurnOutcome, UsageBudget
from ..core.live_sessions import LiveSession
from ..core.turn_state import Turn
from ..scheduling.runner import TurnRunner
from ..subagents.inline import play
from ..turn.summary_strategies import Summary

_CODES: dict[str, ModelErrorCode] = {code: code for code in get_args(ModelErrorCode)}
AGENT = "compaction"
SECONDS = 120.0
MARGIN = 0.93
"""Of the room that counting says there is: counts are estimates."""
WORDS = 0.6
"""Of a token: what the model is asked for, so that its answer is not cut off in the middle."""
ASKED = "<conversation>\n{record}\n</conversation>\n\nWrite the summary of this conversation, in at most {words} words."


@dataclass(frozen=True, slots=True)
class SummarizerModels:
    """Who may sum up, and how much each may be shown."""

    agents: AgentDirectory
    windows: Callable[[str], ContextWindow]
    """By model."""
    cards: Callable[[], Sequence[ModelCard]]
    """The models that are known."""
    chosen: str | None = None
    """The operator's choice."""

    def behind(self, model: str) -> str | None:
        """The provider's own name for a model; none where that is not known."""
        return next((card.upstream for card in self.cards() if card.id == model), None)

    def manifest(self) -> Manifest:
        found = self.agents.get(AGENT)
        if found is None:
            raise ModelError(f"there is no agent {AGENT}", code="model_config")
        return found

    def model(self, own: str, needed: int, *, price_needed: bool = False) -> str:
        """The cheapest one that can be shown so many tokens and whose price and window are known; else the session's
        own. `price_needed`: a model that was set is passed over where its price is not known."""
        priced = {card.id: price for card in self.cards() if (price := _price(card)) is not None}
        set_by = self.manifest().model or self.chosen
        if set_by and (set_by in priced or not price_needed):
            return set_by
        if own not in priced:
            return own
        large = {card.id for card in self.cards() if card.context_limit and self.windows(card.id).usable >= needed}
        return min(priced.keys() & (large | {own}), key=lambda name: (priced[name], name != own, name))


class SummarizerAgent:
    """Fills `Summarizer` for one compaction."""

    def __init__(
        self, runner: TurnRunner, cast: SummarizerModels, conversation: LiveSession, model: str, *, needed: int,
        most: int, meters: TokenCalibrations, trials: CompactionHistory, retries: int, parent: Turn | None = None,
    ) -> None:  # fmt: skip
        """`needed`: about how many tokens are to be summed up; `most`: tokens of the summary, as the session's model
        counts. Raises ModelError where there is nobody to do it."""
        self._runner, self._cast, self._conversation, self._parent = runner, cast, conversation, parent
        self._retries, self._most = retries, most
        self._manifest = cast.manifest()
        price_needed = parent is not None and parent.books.price_needed
        self._own, self._model = model, cast.model(model, needed, price_needed=price_needed)
        self._session_meter, self._meter = meters.of(model), meters.of(self._model)
        self._temperature = self._manifest.temperature
        self._gave_way = False
        self._trials = trials
        self.spent = Usage()

    @property
    def room(self) -> int:
        overhead = self.cost(self._manifest.prompt) + self.cost(ASKED) + 64
        return max(0, int((self._window.limit - self._answer) * MARGIN) - overhead)

    def cost(self, text: str) -> int:
        """A model that was never heard of counts as the session's own, for all we know."""
        return ContextUsage(self._meter if self._meter.calibrated else self._session_meter).text(text)

    @property
    def _answer(self) -> int:
        """Tokens that it may write: what the session has room for, and no more than it can itself."""
        return min(self._most, self._window.summary)

    @property
    def _window(self) -> ContextWindow:
        """Of the model, or what it has let us know by now."""
        refused = self._trials.refused if self._trials.model == self._model else None
        return self._cast.windows(self._model).narrowed(self._meter.limit).narrowed(refused)

    async def write(self, record: str) -> Summary:
        """One attempt. Where the cheap model cannot do it, the session's own one does, from then on."""
        try:
            return await self._written(record)
        except ModelError as error:
            if error.code not in ("model_config", "model_auth", "unknown_model") or self._gave_way:
                raise
        self._gave_way = True
        self._model, self._meter, self._temperature = self._own, self._session_meter, None
        return await self._written(record)

    async def _written(self, record: str) -> Summary:
        turn = self._turn(record)
        try:
            parts = await play(turn, self._runner, self._context(turn), whole=True)
        finally:
            self.spent = self.spent.plus(turn.books.usage)
        outcome = turn.outcome
        if outcome is None or outcome.status != "complete":
            raise _error(outcome)
        text = text_of(parts).strip()
        return Summary(text, ContextUsage(self._session_meter).text(text), model=turn.model)

    def _turn(self, record: str) -> Turn:
        model, manifest, conversation, ids = self._model, self._manifest, self._conversation, self._runner.ids
        told = LiveSession(
            conversation.id, conversation.principal, manifest.name, model, manifest.prompt, digest(manifest.prompt), ()
        )
        message_id = ids.new("msg")
        books = self._parent.books if self._parent is not None else None
        seconds = SECONDS if self._parent is None else min(SECONDS, self._runner.seconds_left(self._parent))
        limits = TurnLimits(1, seconds, attempts=1 + self._retries, answer=self._answer)
        return Turn(
            conversation=told,
            message_id=message_id,
            reply_id=ids.new("msg"),
            parts=[{"type": "text", "text": ASKED.format(record=record, words=int(self._answer * WORDS))}],
            books=UsageBudget(limits, caller=books, apart=conversation.stored),
            model=model,
            session_name=conversation.id,
            message_name=message_id,
            agent=manifest.name,
            parent=self._parent,
            temperature=self._temperature,
        )

    def _context(self, turn: Turn) -> ToolContext:
        home, session_id = self._runner.home, self._conversation.id
        return ToolContext(session_id, "", home.workspace, home.scratch(session_id), turn.message_id, agent=turn.agent)


def _price(card: ModelCard) -> float | None:
    """What a model costs by and large; none where that is not known, or where it does not talk."""
    if card.pricing is None or (card.capabilities and "chat" not in card.capabilities):
        return None
    return card.pricing.input + card.pricing.output / 4


def _error(outcome: TurnOutcome | None) -> ModelError:
    """Why a turn that should have given a summary has not."""
    code = _CODES.get(outcome.error_code or "", "model_unavailable") if outcome is not None else "model_unavailable"
    return ModelError((outcome.error if outcome is not None else None) or "no summary came back", code=code)
