"""Requests that an agent invents: they harm neither the other workspaces of a bot nor the conversation of a chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_common.clock import SystemClock
from frontends.conversation.requests.waiting import ENOUGH, READ_SECONDS
from tests.bot_platform import CHAT

from .stub_host import ANN_ID, BOT, WORKSPACE, Talk, nothing, problem, streamed

OTHER = "evil"
OWN = f"{BOT}-{CHAT.id}-1"
"""The session of the chat."""


def waits(workspace: str, id: str, **changed: Any) -> dict[str, Any]:
    row = {
        "workspace": workspace, "agent": "main", "user": ANN_ID, "session_id": "s", "message_id": "m", "id": id,
        "kind": "approval", "tool_call_id": "c1", "tool": "bash", "input": {"command": f"run {id}"}, "since": 1,
        "expires_at": SystemClock().now_ms() + 60_000,
    }  # fmt: skip
    return row | changed


def asks(workspace: str, id: str) -> dict[str, Any]:
    asked = {"questions": [{"question": f"Where is {id}?"}]}
    return waits(workspace, id, kind="question", tool="question", input=asked, session_id=OWN)


class Listing:
    """A host with these requests. What is sent to a chat is answered."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows: Sequence[dict[str, Any]] = rows
        self.answered: list[tuple[str, Any]] = []
        """Workspace and decision of each answer."""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/pending":
            rows = [one for one in self.rows if one["workspace"] == request.url.params["workspace"]]
            return httpx2.Response(200, json={"pending": rows})
        if request.url.path.endswith("/answer"):
            body = json.loads(request.content)
            self.answered.append((request.url.path.split("/")[2], body.get("answers") or body.get("decision")))
            return problem(409, "not_waiting")
        return streamed(request, "well said") if request.url.path.endswith("/chat/stream") else nothing(request)


async def begun(tmp_path: Path, host: Listing) -> Talk:
    talk = Talk(tmp_path, host, workspaces=[WORKSPACE, OTHER])
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    return talk


@pytest.mark.parametrize(
    "odd",
    [{"expires_at": 10**30}, {"input": {"command": "\0", "x": [[[]]]}, "expires_at": 2**63}],
    ids=["time", "bound"],
)
async def test_an_odd_request_hides_none_of_another_agent(tmp_path: Path, odd: dict[str, Any]) -> None:
    talk = await begun(tmp_path, Listing(waits(OTHER, "x1", **odd), waits(WORKSPACE, "r1")))
    await talk.until(lambda: any("run r1" in text for text in talk.platform.shown()))
    await talk.kill()


class Silent(httpx2.AsyncByteStream):
    """A body that does not come."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""


async def test_an_agent_that_is_silent_holds_up_no_other_one(tmp_path: Path) -> None:
    listing = Listing(waits(WORKSPACE, "r1"))

    def respond(request: httpx2.Request) -> httpx2.Response:
        silent = request.url.path == "/pending" and request.url.params["workspace"] == OTHER
        return httpx2.Response(200, stream=Silent()) if silent else listing(request)

    talk = Talk(tmp_path, respond, workspaces=[OTHER, WORKSPACE])
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    async with asyncio.timeout(READ_SECONDS / 2):
        await talk.until(lambda: any("run r1" in text for text in talk.platform.shown()))
    await talk.kill()


async def test_a_request_that_cannot_be_shown_is_left_out_alone(tmp_path: Path) -> None:
    """Whatever it is that cannot be shown."""
    talk = Talk(tmp_path, Listing(waits(OTHER, "x1"), waits(OTHER, "x2"), waits(WORKSPACE, "r1")))
    talk.workspaces = [WORKSPACE, OTHER]
    split = talk.platform.split

    def refuses(markdown: str) -> list[str]:
        if "run x1" in markdown:
            raise RecursionError("too deep")
        return split(markdown)

    talk.platform.split = refuses
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    for words in ("run x2", "run r1"):
        await talk.until(lambda words=words: any(words in text for text in talk.platform.shown()))
    query = "SELECT COUNT(*) FROM requests WHERE request = 'x1'"
    assert await talk.database.run(lambda c: c.execute(query).fetchone()) == (0,)
    await talk.kill()


async def test_a_question_of_another_workspace_takes_no_message(tmp_path: Path) -> None:
    """It names the session of the chat, as if the agent of the chat had asked."""
    host = Listing(asks(OTHER, "x1"))
    talk = await begun(tmp_path, host)
    (card,) = await talk.until(talk.platform.shown)
    assert card.startswith(f"*{OTHER}, conversation")
    await talk.handle(talk.people.message("the code is 4711"))
    await talk.until(lambda: any("well said" in text for text in talk.platform.shown()))
    assert host.answered == []
    await talk.handle(talk.people.message("Paris", reply_to=next(iter(talk.platform.messages))))
    assert host.answered == [(OTHER, [["Paris"]])]
    await talk.kill()


async def test_a_question_of_another_workspace_hides_none_of_this(tmp_path: Path) -> None:
    host = Listing(asks(OTHER, "x1"), asks(WORKSPACE, "q1"), waits(OTHER, "x2", code="K8"))
    talk = await begun(tmp_path, host)
    await talk.until(lambda: len(talk.platform.shown()) == 3)
    await talk.handle(talk.people.message("yes"))
    assert host.answered == [(WORKSPACE, [["yes"]])]
    await talk.kill()


async def test_a_code_counts_in_the_workspace_of_the_chat_first(tmp_path: Path) -> None:
    host = Listing(waits(WORKSPACE, "r1", code="K7"), waits(OTHER, "x1", code="K7"), waits(OTHER, "x2", code="K8"))
    talk = await begun(tmp_path, host)
    await talk.until(lambda: len(talk.platform.shown()) == 3)
    await talk.handle(talk.people.message("yes K7"))
    await talk.handle(talk.people.message("no K8"))
    assert host.answered == [(WORKSPACE, "once"), (OTHER, "reject")]
    await talk.kill()


async def test_a_workspace_floods_no_chat(tmp_path: Path) -> None:
    """What it puts in the place of what it has taken back counts too."""
    host = Listing(*(waits(OTHER, f"x{number}") for number in range(ENOUGH + 5)))
    talk = await begun(tmp_path, host)
    await talk.until(lambda: len(talk.platform.shown()) == ENOUGH)
    host.rows = [*(waits(OTHER, f"y{number}") for number in range(5)), waits(WORKSPACE, "r1")]
    talk.conversations._bots[BOT][1].look()
    await talk.until(lambda: any("run r1" in text for text in talk.platform.shown()))
    await talk.until(lambda: sum("decided elsewhere" in text for text in talk.platform.shown()) == ENOUGH)
    assert len(talk.platform.shown()) == ENOUGH + 1
    await talk.kill()


async def test_an_odd_event_ends_nothing(tmp_path: Path) -> None:
    """A list in the place of a name, and an event that is none."""
    rows: list[Any] = [
        {"type": "approval-resolved", "workspace": OTHER, "id": ["x"], "session_id": {}, "user": 10**30},
        ["no object"],
        {"type": "notice", "workspace": WORKSPACE, "user": ANN_ID, "text": "all is well"},
    ]
    events = "".join(
        f"id: {at}\nevent: {one['type'] if isinstance(one, dict) else 'odd'}\ndata: {json.dumps(one)}\n\n"
        for at, one in enumerate(rows, 1)
    )
    listing = Listing()

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/events":
            return listing(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events)

    talk = Talk(tmp_path, respond)
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    await talk.until(lambda: any("all is well" in text for text in talk.platform.shown()))
    await talk.kill()


async def test_turns_that_are_said_to_have_failed_flood_no_chat(tmp_path: Path) -> None:
    failed = {"type": "turn-finished", "reason": "error", "workspace": OTHER, "user": ANN_ID, "session_id": "s"}
    last = {"type": "notice", "workspace": WORKSPACE, "user": ANN_ID, "text": "all is well"}
    events = "".join(
        f"id: {at}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n"
        for at, one in enumerate([*[failed] * 25, last], 1)
    )
    listing = Listing()

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/events":
            return listing(request)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events)

    talk = Talk(tmp_path, respond, workspaces=[WORKSPACE, OTHER])
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    await talk.until(lambda: any("all is well" in text for text in talk.platform.shown()))
    assert sum("has failed" in text for text in talk.platform.shown()) == 20
    await talk.kill()
