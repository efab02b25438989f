"""Run the agent that summarizes conversations: on the same loop, for no principal, without tools
(docs/explanation/compaction.md#who-sums-up)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from agent_common.protocol import ModelCard, Usage

from ...agents import AgentDirectory, Manifest
from ...context import CompactionHistory, ContextUsage, ContextWindow, digest
from ...errors import ModelError, ModelErrorCode
from ...ports import ToolContext
from ...sessions import AgentPrompt, text_of
from ..core.live_sessions import LiveSession
from ..core.model_windows import ModelWindows
from ..core.turn_state import Turn, TurnRequest
from ..execution.inline_run import run_inline
from ..limits.budget import UsageBudget
from ..limits.outcome import TurnOutcome
from ..limits.turn_limits import TurnLimits
from ..services import LoopServices
from ..turn.context_budget import ContextBudgets
from .summary_strategies import Summary

_CODES: dict[str, ModelErrorCode] = {code: code for code in get_args(ModelErrorCode)}
AGENT_NAME = "compaction"
TIMEOUT_SECONDS = 120.0
USED_SHARE = 0.93
"""Used part of the estimated free tokens, because token counts are estimates."""
WORDS_PER_TOKEN = 0.6
"""Words requested per token of the limit, so that the summary is not cut off."""
PROMPT_TEMPLATE = (
    "<conversation>\n{record}\n</conversation>\n\nWrite the summary of this conversation, in at most {words} words."
)


@dataclass(frozen=True, slots=True)
class SummarizerModels:
    """Chooses the model that summarizes."""

    agents: AgentDirectory
    windows: ModelWindows
    configured_model: str | None = None
    """The operator's choice; None: not set."""

    def manifest(self) -> Manifest:
        found = self.agents.get(AGENT_NAME)
        if found is None:
            raise ModelError(f"there is no agent {AGENT_NAME}", code="model_config")
        return found

    def choose_model(self, session_model: str, needed_tokens: int, *, price_needed: bool = False) -> str:
        """Return the cheapest model with a known price and a window of at least `needed_tokens`, or else the session's
        own model. With `price_needed`, a configured model without a known price is ignored."""
        cards = self.windows.known_cards
        priced = {name: price for name, card in cards.items() if (price := _price(card)) is not None}
        set_by = self.manifest().model or self.configured_model
        if set_by and (set_by in priced or not price_needed):
            return set_by
        if session_model not in priced:
            return session_model
        large = {
            name
            for name, card in cards.items()
            if card.context_limit and self.windows.configured(name).usable >= needed_tokens
        }
        return min(
            priced.keys() & (large | {session_model}), key=lambda name: (priced[name], name != session_model, name)
        )


class SummarizerAgent:
    """Implements `Summarizer` for one compaction."""

    def __init__(
        self,
        *,
        services: LoopServices,
        context_budgets: ContextBudgets,
        models: SummarizerModels,
        session: LiveSession,
        session_model: str,
        needed_tokens: int,
        max_tokens: int,
        history: CompactionHistory,
        retries: int,
        parent: Turn | None = None,
    ) -> None:
        """Choose a model. `needed_tokens` is the approximate size of the conversation; `max_tokens` limits the summary,
        as counted by the session's model. Raises ModelError if the compaction agent is missing."""
        self._services = services
        self._context_budgets = context_budgets
        self._models = models
        self._session = session
        self._parent = parent
        self._retries = retries
        self._max_tokens = max_tokens
        self._manifest = models.manifest()
        price_needed = parent is not None and parent.budget.price_needed
        self._session_model = session_model
        self._model = models.choose_model(session_model, needed_tokens, price_needed=price_needed)
        self._session_calibration = models.windows.calibrations.for_model(session_model)
        self._calibration = models.windows.calibrations.for_model(self._model)
        self._temperature = self._manifest.temperature
        self._fell_back = False
        self._history = history
        self.total_usage = Usage()

    @property
    def max_input_tokens(self) -> int:
        overhead = self.count_tokens(self._manifest.prompt) + self.count_tokens(PROMPT_TEMPLATE) + 64
        return max(0, int((self._window.limit - self._max_summary_tokens) * USED_SHARE) - overhead)

    def count_tokens(self, text: str) -> int:
        """Count with this model's calibration, or with the session's while this model has none."""
        return ContextUsage(
            self._calibration if self._calibration.calibrated else self._session_calibration
        ).text_tokens(text)

    @property
    def _max_summary_tokens(self) -> int:
        """Maximum tokens of the summary: the limit of the session, but no more than the model can write."""
        return min(self._max_tokens, self._window.max_summary)

    @property
    def _window(self) -> ContextWindow:
        """The window of the model, narrowed by what its refusals have revealed."""
        refused = self._history.refused_tokens if self._history.model == self._model else None
        return self._models.windows.configured(self._model).narrowed(self._calibration.limit, refused)

    async def summarize(self, transcript: str) -> Summary:
        """Write a summary in one attempt. If the chosen model is not usable, switch to the session's own for good."""
        try:
            return await self._summarize_once(transcript)
        except ModelError as error:
            if error.code not in ("model_config", "model_auth", "unknown_model") or self._fell_back:
                raise
        self._fell_back = True
        self._model = self._session_model
        self._calibration = self._session_calibration
        self._temperature = None
        return await self._summarize_once(transcript)

    async def _summarize_once(self, transcript: str) -> Summary:
        turn = self._turn(transcript)
        try:
            parts = await run_inline(
                turn, self._services, self._context_budgets, self._context(turn), without_compaction=True
            )
        finally:
            self.total_usage = self.total_usage.plus(turn.budget.usage)
        outcome = turn.end.outcome
        if outcome is None or outcome.status != "complete":
            raise _error(outcome)
        text = text_of(parts).strip()
        return Summary(
            text,
            ContextUsage(self._session_calibration).text_tokens(text),
            model=turn.fallback.model if turn.fallback is not None else turn.model,
        )

    def _turn(self, transcript: str) -> Turn:
        model = self._model
        manifest = self._manifest
        session = self._session
        ids = self._services.ids
        prompts = {manifest.name: AgentPrompt(manifest.prompt, digest(manifest.prompt), ())}
        agent_session = LiveSession(session.id, session.principal, manifest.name, model, prompts)
        message_id = ids.new("msg")
        parent_budget = self._parent.budget if self._parent is not None else None
        seconds = (
            TIMEOUT_SECONDS
            if self._parent is None
            else min(TIMEOUT_SECONDS, self._parent.seconds_left(self._services.clock.monotonic()))
        )
        limits = TurnLimits(1, seconds, attempts=1 + self._retries, answer_tokens=self._max_summary_tokens)
        return Turn(
            TurnRequest(
                session=agent_session,
                message_id=message_id,
                reply_id=ids.new("msg"),
                parts=[
                    {
                        "type": "text",
                        "text": PROMPT_TEMPLATE.format(
                            record=transcript, words=int(self._max_summary_tokens * WORDS_PER_TOKEN)
                        ),
                    }
                ],
                session_name=session.id,
                message_name=message_id,
                agent=manifest.name,
                parent=self._parent,
                temperature=self._temperature,
            ),
            budget=UsageBudget(limits, caller_budget=parent_budget, recorded_separately=session.stored),
            model=model,
        )

    def _context(self, turn: Turn) -> ToolContext:
        home = self._services.home
        session_id = self._session.id
        return ToolContext(
            session_id, "", home.workspace, home.scratch(session_id), turn.message_id, agent=turn.request.agent
        )


def _price(card: ModelCard) -> float | None:
    """Return a rough price for comparisons; None if unknown, or if the model cannot chat."""
    if card.pricing is None or (card.capabilities and "chat" not in card.capabilities):
        return None
    return card.pricing.input + card.pricing.output / 4


def _error(outcome: TurnOutcome | None) -> ModelError:
    """Return the error of a turn that should have written a summary."""
    code = _CODES.get(outcome.error_code or "", "model_unavailable") if outcome is not None else "model_unavailable"
    return ModelError((outcome.error if outcome is not None else None) or "no summary came back", code=code)
