"""The person is asked: approvals and questions as menus, their answers sent to the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agent_common.protocol import ApprovalScope

from ... import Agent, Approval, ClientError, DeadlineExceeded, NotFound, NotWaiting, Question, TooManyRequests
from ..errors import explain
from .approval import REJECT, approval_menu, reason_menu, rules_in_words, where
from .blocks import Transcript
from .conversation import AWAY, RETRY_SECONDS
from .file_changes import planned_change
from .questions import answers_of, asked, question_menu
from .screen import Screen

Answer = Literal["once", "always", "reject"] | Sequence[Sequence[str]]
Outcome = Literal["taken", "over", "refused"]
"""Of an answer: `over` if nothing waits for it any more, `refused` if the request still waits."""


class Person:
    """Asks one thing after the other; what is answered elsewhere is not asked any more."""

    def __init__(
        self, agent: Agent, screen: Screen, transcript: Transcript, online: asyncio.Event, stop: Callable[[], None]
    ) -> None:
        self._agent = agent
        self._screen = screen
        self._transcript = transcript
        self._online = online
        self._stop = stop
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By the id of the call that waits."""
        self._undecided: dict[str, Approval | Question] = {}
        """The requests that wait for a choice of this person, by their ids."""

    def ask(self, request: Approval | Question) -> None:
        """Ask the person, beside everything else. The same request may come again with more to show."""
        call_id = _call_of(request)
        if self._undecided.get(request.id, request) != request:
            self.answered(call_id)
        if call_id not in self._asking:
            self._undecided[request.id] = request
            self._asking[call_id] = self._screen.start(self._ask(call_id, request))

    def answered(self, call_id: str | None = None) -> None:
        """A call waits no more; without an id none does."""
        for name in [call_id] if call_id is not None else list(self._asking):
            if task := self._forget(name):
                task.cancel()

    def resolved(self, request_id: str) -> None:
        """A request waits no more. One that is being answered here stays until the agent has said so."""
        if (request := self._undecided.get(request_id)) is not None:
            self.answered(_call_of(request))

    def _forget(self, call_id: str) -> asyncio.Task[None] | None:
        self._undecided = {name: one for name, one in self._undecided.items() if _call_of(one) != call_id}
        return self._asking.pop(call_id, None)

    async def _ask(self, call_id: str, request: Approval | Question) -> None:
        try:
            if isinstance(request, Approval):
                await self._approve(request)
            else:
                await self._question(request)
        finally:
            if self._asking.get(call_id) is asyncio.current_task():  # else it is forgotten, or asked anew
                self._forget(call_id)

    async def _approve(self, approval: Approval) -> None:
        menu, decisions = approval_menu(approval, await planned_change(self._agent, approval.tool, approval.input))
        follows = False
        while True:
            picked = await self._screen.choose(menu, follows=follows)
            follows = False
            if picked is None:
                self._stop()
                return
            chosen = decisions[picked.numbers[0]]
            if chosen.word == REJECT and picked.text is not None:
                chosen = replace(chosen, reason=picked.text)
            elif chosen.word == REJECT:
                typed = await self._screen.choose(reason_menu(approval), follows=True)
                if typed is None:
                    follows = True
                    continue
                chosen = replace(chosen, reason=typed.text or None)
            outcome = await self._send(approval, chosen.word, chosen.reason, chosen.scope)
            if outcome == "refused":
                continue
            if outcome == "taken" and chosen.scope is not None:
                extent = where(approval, chosen.scope)
                self._transcript.notice(f"Always allowed {extent}: {rules_in_words(approval)}")
            return

    async def _question(self, question: Question) -> None:
        while (answers := await self._ask_all(question)) is not None:
            if await self._send(question, answers) != "refused":
                return
        self._stop()

    async def _ask_all(self, question: Question) -> list[list[str]] | None:
        """Ask one part after the other; None after Escape."""
        answers: list[list[str]] = []
        for number, raw in enumerate(question.questions, 1):
            one = asked(raw)
            menu = question_menu(one, number, len(question.questions))
            picked = await self._screen.choose(menu, follows=number > 1)
            if picked is None:
                return None
            answers.append(answers_of(one, picked))
        return answers

    async def _send(
        self,
        request: Approval | Question,
        answer: Answer,
        reason: str | None = None,
        scope: ApprovalScope | None = None,
    ) -> Outcome:
        """Send the answer, as soon as the agent can be reached."""
        self._undecided.pop(request.id, None)
        while True:
            try:
                await self._agent.answer(request, answer, reason, scope=scope)
                outcome: Outcome = "taken"
            except (*AWAY, DeadlineExceeded):
                self._online.clear()
                await self._online.wait()
                continue
            except TooManyRequests as error:
                await asyncio.sleep(error.retry_after or RETRY_SECONDS)
                continue
            except NotWaiting:
                self._transcript.notice("It was answered elsewhere.")
                outcome = "over"
            except ClientError as error:
                self._transcript.problem(explain(error))
                if not isinstance(error, NotFound):
                    self._undecided[request.id] = request
                    return "refused"
                outcome = "over"
            self._transcript.answered()
            self._screen.changed()
            return outcome


def _call_of(request: Approval | Question) -> str:
    return request.tool_call_id if isinstance(request, Approval) else request.id
