"""The person is asked: approvals and questions as menus, their answers sent to the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agent_common.protocol import ApprovalScope

from ... import Agent, Approval, ClientError, ConnectionFailed, NotWaiting, Question
from ..errors import explain
from .approval import REJECT, approval_menu, reason_menu, rules_in_words, where
from .blocks import Transcript
from .file_changes import planned_change
from .questions import answers_of, asked, question_menu
from .screen import Screen

Answer = Literal["once", "always", "reject"] | Sequence[Sequence[str]]


class Person:
    """Asks one thing after the other; what is answered elsewhere is not asked any more."""

    def __init__(
        self, agent: Agent, screen: Screen, transcript: Transcript, online: asyncio.Event, stop: Callable[[], None]
    ) -> None:
        self._agent, self._screen, self._transcript = agent, screen, transcript
        self._online, self._stop = online, stop
        self._asking: dict[str, asyncio.Task[None]] = {}
        """By the id of the call that waits."""

    def ask(self, request: Approval | Question) -> None:
        """Ask the person, beside everything else."""
        call_id = request.tool_call_id if isinstance(request, Approval) else request.id
        if call_id not in self._asking:
            self._asking[call_id] = self._screen.start(self._ask(call_id, request))

    def answered(self, call_id: str | None = None) -> None:
        """A call waits no more; without an id none does."""
        for name in [call_id] if call_id is not None else list(self._asking):
            if task := self._asking.pop(name, None):
                task.cancel()

    async def _ask(self, call_id: str, request: Approval | Question) -> None:
        try:
            if isinstance(request, Approval):
                await self._approve(request)
            else:
                await self._question(request)
        finally:
            self._asking.pop(call_id, None)

    async def _approve(self, approval: Approval) -> None:
        menu, decisions = approval_menu(approval, await planned_change(self._agent, approval.tool, approval.input))
        follows = False
        while True:
            picked = await self._screen.choose(menu, follows=follows)
            if picked is None:
                self._stop()
                return
            chosen = decisions[picked.numbers[0]]
            if chosen.word == REJECT:
                typed = await self._screen.choose(reason_menu(approval), follows=True)
                follows = True
                if typed is None:
                    continue
                chosen = replace(chosen, reason=typed.text or None)
            await self._send(approval, chosen.word, chosen.reason, chosen.scope)
            if chosen.scope is not None:
                extent = where(approval, chosen.scope)
                self._transcript.notice(f"Always allowed {extent}: {rules_in_words(approval)}")
            return

    async def _question(self, question: Question) -> None:
        answers: list[list[str]] = []
        for number, raw in enumerate(question.questions, 1):
            one = asked(raw)
            menu = question_menu(one, number, len(question.questions))
            picked = await self._screen.choose(menu, follows=number > 1)
            if picked is None:
                self._stop()
                return
            answers.append(answers_of(one, picked))
        await self._send(question, answers)

    async def _send(
        self,
        request: Approval | Question,
        answer: Answer,
        reason: str | None = None,
        scope: ApprovalScope | None = None,
    ) -> None:
        """Send the answer, as soon as the agent can be reached."""
        while True:
            try:
                await self._agent.answer(request, answer, reason, scope=scope)
            except NotWaiting:
                self._transcript.notice("It was answered elsewhere.")
            except ConnectionFailed:
                self._online.clear()
                await self._online.wait()
                continue
            except ClientError as error:
                self._transcript.problem(explain(error))
            self._transcript.answered()
            self._screen.changed()
            return
