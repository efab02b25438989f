"""Decides approvals and questions: by a button or by a text, once, and by those alone who may."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import assert_never

from agent_client import ApiError, ClientError, NotFound, NotWaiting
from agent_common.protocol import how_to_decide, lacks_code, read_typed_decision

from ...people import Person
from ...platform import Update
from ...store import (
    StoredChat,
    StoredRequest,
    change_post_in,
    chat_in,
    end_request_in,
    expect_reason_in,
    note_deciding_in,
    note_progress_in,
    open_requests_in,
    post_of_message_in,
    received_at_in,
    request_in,
)
from ..context import Context, words_or_later
from ..words import one_line, plain
from .card import PREFIX, READ_FIRST, card, is_offered
from .choices import (
    FOR_AGENT,
    REASON_CHARACTERS,
    Answer,
    AskReason,
    Choice,
    Progress,
    choice_of_press,
    choice_of_text,
    lacks_pick,
)

REASON_MS = 10 * 60 * 1000
"""How long the next message of a person counts as the reason."""
_NOT_ANY_MORE = "This button is not valid any more."


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of people on what waits in the chats of a bot."""

    context: Context

    async def press(self, update: Update, person: Person) -> None:
        """Carry out a press on a button of a request, and end the update."""
        it = self.context
        pieces = update.text.split(":", 2)
        request = await it.database.run(lambda c: request_in(c, pieces[1])) if len(pieces) == 3 else None
        if request is None or (request.bot, request.chat) != (it.bot.name, update.chat.id):
            await it.acknowledge(update, _NOT_ANY_MORE)
        elif not self._may_decide(request, person):
            await it.acknowledge(update, f"Only {one_line(request.requester_name, 40)} or an approver may decide this.")
        elif pieces[2] == FOR_AGENT and not _has_asked(request, person):
            await it.acknowledge(update, f"Only {one_line(request.requester_name, 40)} may allow this for good.")
        elif request.state == "decided":
            await it.acknowledge(update, one_line(f"Decided: {request.verdict}", 150))
        elif lacks_pick(request, pieces[2]):
            await it.acknowledge(update, "Pick at least one, or reply with an answer of your own.")
        elif (choice := choice_of_press(request, pieces[2])) is None or not self._is_offered(request, pieces[2]):
            await it.acknowledge(update, _NOT_ANY_MORE)
        else:
            await it.acknowledge(update)
            await self._carry_out(update, request, choice, person)
            return
        await it.tell(update)

    async def answer(self, update: Update, person: Person) -> bool:
        """Take a message as the decision on the approval whose code it names, as the answer to the card that it replies
        to, as the answer to the one question that the conversation of its chat has open, whatever else is, or as the
        reason for a rejection, and end the update. Returns False if it is none."""
        it = self.context
        received_at = await it.database.run(lambda c: received_at_in(c, it.bot.name, update.id))
        found = await it.database.run(lambda c: self._open_before(c, update.chat.id, received_at))
        for request in found:
            if request.reason_from == person.principal and _is_reason(request, received_at):
                reason = Answer("reject", update.text.strip()[:REASON_CHARACTERS] or None)
                await self._carry_out(update, request, reason, person)
                return True
        mine = [request for request in found if self._may_decide(request, person)]
        chat = await it.database.run(lambda c: chat_in(c, it.bot.name, update.chat.id))
        own = [one for one in mine if chat is not None and one.workspace == it.workspace(chat)]
        coded = [one for one in mine if one.kind == "approval" and choice_of_text(one, update.text) is not None]
        named = await self._replied_to(update, mine)
        decided = [one for one in coded if one in named] or [one for one in coded if one in own] or coded
        if not decided and not named and len(own) > 1 and await self._explain(update, own):
            return True
        questions = [one for one in own if one.kind == "question" and chat is not None and one.session == chat.session]
        [request] = next((one for one in (decided, named, questions) if len(one) == 1), [None])
        if request is None or (choice := choice_of_text(request, update.text)) is None:
            return await self._explain(update, own)
        if isinstance(choice, Answer) and choice.decision and not self._is_offered(request, choice.decision):
            await it.tell(update, READ_FIRST)
            return True
        await self._carry_out(update, request, choice, person)
        return True

    async def _replied_to(self, update: Update, requests: Sequence[StoredRequest]) -> list[StoredRequest]:
        """Return the one of the requests to whose card a message replies, if there is one."""
        if (message := update.reply_to) is None:
            return []
        name = self.context.bot.name
        post = await self.context.database.run(lambda c: post_of_message_in(c, name, update.chat.id, message))
        return [request for request in requests if request.token == post]

    async def _explain(self, update: Update, mine: Sequence[StoredRequest]) -> bool:
        """Answer a decision that is on none of the open approvals. Returns False if the message is no decision."""
        codes = [request.code for request in mine if request.code is not None]
        if not codes or not (lacks_code(update.text) or read_typed_decision(update.text)):
            return False
        await self.context.tell(update, f"Press a button, or {', or '.join(map(how_to_decide, codes))}.")
        return True

    def _open_before(self, connection: sqlite3.Connection, chat: str, received_at: int) -> list[StoredRequest]:
        """Return what was open when a message came. The agent may have asked because of this very message, if the
        process died before its update had ended."""
        found = open_requests_in(connection, self.context.bot.name, chat)
        return [one for one in found if one.created_at <= received_at]

    async def is_waiting(self, chat: StoredChat) -> bool:
        """Whether the session of a chat waits for a person, and so takes no message."""
        name = self.context.bot.name
        found = await self.context.database.run(lambda c: open_requests_in(c, name, chat.chat.id))
        own = self.context.workspace(chat), chat.session
        return any((request.workspace, request.session) == own for request in found)

    def _may_decide(self, request: StoredRequest, person: Person) -> bool:
        principals = person.identities | {person.principal}
        return _has_asked(request, person) or bool(principals & self.context.bot.approvers)

    def _is_offered(self, request: StoredRequest, word: str) -> bool:
        return is_offered(request, word, self.context.bot.platform.split)

    async def _carry_out(self, update: Update, request: StoredRequest, choice: Choice, person: Person) -> None:
        match choice:
            case Answer():
                await self._decide(update, request, choice)
            case Progress():
                shown = replace(request, answers=choice.answers, picked=choice.picked)
                await self._show(update, shown, lambda c: note_progress_in(c, shown.token, shown.answers, shown.picked))
            case AskReason():
                it = self.context
                until = REASON_MS + await it.database.run(lambda c: received_at_in(c, it.bot.name, update.id))
                shown = replace(request, reason_from=person.principal, reason_until=until)
                await self._show(
                    update, shown, lambda c: expect_reason_in(c, shown.token, shown.reason_from, shown.reason_until)
                )
            case _:
                assert_never(choice)

    async def _decide(self, update: Update, request: StoredRequest, answer: Answer) -> None:
        """Pass a decision on. That this update decides is on disk before: if the process dies before it has noted the
        outcome, it finds the request answered when it starts again, and knows by whom."""
        it = self.context
        again = request.deciding == update.id
        await it.database.run(lambda c: note_deciding_in(c, request.token, update.id))
        agent = it.mesh.agent(request.workspace, request.user)
        verdict = _verdict(answer, request, update.sender.name)
        try:
            if request.kind == "approval":
                await agent.answer(request, answer.decision or "reject", answer.reason, scope=answer.scope)
            else:
                await agent.answer(request, [[*texts] for texts in answer.answers])
        except NotWaiting:
            verdict = verdict if again else "It was decided elsewhere, or is over."
        except NotFound:
            verdict = "Its conversation does not exist any more."
        except ClientError as error:
            if not again and isinstance(error, ApiError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                # It was refused, and so did not arrive: what is over later was not decided by it.
                await it.database.run(lambda c: note_deciding_in(c, request.token, None))
            words = words_or_later(error)
            await it.tell(update, words)
            return
        decided = replace(request, state="decided", verdict=verdict, reason_from=None)
        await self._show(update, decided, lambda c: end_request_in(c, decided.token, verdict))

    async def _show(self, update: Update, request: StoredRequest, note: Callable[[sqlite3.Connection], object]) -> None:
        pieces = card(request, self.context.bot.platform.split)

        def work(connection: sqlite3.Connection) -> None:
            note(connection)
            change_post_in(connection, request.token, pieces)

        await self.context.finish(update, work)


def _has_asked(request: StoredRequest, person: Person) -> bool:
    """Whether the call belongs to a turn that this person has started."""
    return request.requester in person.identities | {person.principal}


def _is_reason(request: StoredRequest, received_at: int) -> bool:
    """Whether a message came after the press that asks for a reason, and soon enough. One that waited since before the
    press is none."""
    until = request.reason_until or 0
    return until - REASON_MS < received_at < until


def _verdict(answer: Answer, request: StoredRequest, name: str) -> str:
    by = f"by {plain(name, 40)}"
    match answer.decision:
        case "once":
            return f"✅ Allowed once {by}"
        case "always":
            with_agent = f"with agent {plain(request.agent or '', 60)}"
            return f"♾ Always allowed {with_agent if answer.scope == 'agent' else 'in this conversation'} {by}"
        case "reject":
            return f"❌ Rejected {by}" + (f": {plain(answer.reason, 200)}" if answer.reason else "")
        case None:
            texts = "; ".join(", ".join(texts) for texts in answer.answers)
            return f"→ {plain(texts, 300)} ({by})"


def is_press(data: str) -> bool:
    """Whether a button belongs to a request."""
    return data.startswith(f"{PREFIX}:")
