"""Conversations of a bot with a host that answers as a test wants it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_client import Mesh
from agent_common.clock import SystemClock
from frontends.conversation import Later
from frontends.conversation.messages.files import receive_files
from frontends.people import unpair_in
from frontends.platform import ChatGone, IncomingFile, Piece, Quote, Sender
from frontends.store import (
    NAME,
    Database,
    Reply,
    StoredRequest,
    add_in,
    add_post_in,
    add_reply_in,
    add_request_in,
    count_waiting_in,
    open_requests_in,
    opened,
    remember_chat_in,
)
from tests.bot_platform import CHAT, GROUP, LENGTH, MemoryPlatform, let_in

from .stub_host import ANN_ID, BOT, WORKSPACE, Respond, Talk, nothing, problem, streamed


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    one = Talk(tmp_path)
    await one.start()
    yield one
    await one.kill()


async def approval(talk: Talk, **changed: Any) -> str:
    """The token of an approval, or of what it is changed to, that waits in the chat."""
    now = SystemClock().now_ms()
    request = StoredRequest(
        "t1", BOT, CHAT.id, WORKSPACE, ANN_ID, "s", "r1", now, "approval", "bash", {"command": "ls"}, None, [],
        ANN_ID, "Ann", None, now + 60_000, created_at=now,
    )  # fmt: skip
    request = replace(request, **changed)
    await talk.database.run(lambda c: remember_chat_in(c, BOT, CHAT))
    await talk.database.run(lambda c: add_request_in(c, request))
    before = len(talk.platform.messages)
    await talk.database.run(lambda c: add_post_in(c, BOT, CHAT.id, request.token, [Piece("Allow bash?")], now=now))
    talk.conversations._bots[BOT][0].outbox.wake(CHAT.id)
    await talk.until(lambda: len(talk.platform.messages) > before)
    return request.token


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        ([problem(409, "not_running")], "decided elsewhere"),
        ([problem(429, "too_many_requests")], "decided elsewhere"),
        ([problem(502, "http_error")], "Allowed once by Ann"),
        ([problem(502, "http_error"), problem(409, "not_running")], "Allowed once by Ann"),
    ],
    ids=["does not run", "too much", "may have arrived", "may have arrived before"],
)
async def test_a_card_names_a_person_only_if_their_decision_may_have_arrived(
    talk: Talk, first: list[httpx2.Response], shown: str
) -> None:
    """The first attempts fail; then the approval is over at the agent."""
    answers = iter(first)

    def respond(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/answer"):
            return nothing(request)
        return next(answers, problem(409, "not_waiting"))

    talk.respond = respond
    press = talk.people.press(f"a:{await approval(talk)}:once")
    for _ in first:
        with pytest.raises(Later):
            await talk.handle(press)
    await talk.handle(press)
    await talk.until(lambda: shown in talk.platform.shown()[0])


async def test_a_choice_of_several_ends_with_one_at_least(talk: Talk) -> None:
    asked = {"questions": [{"question": "Which?", "multi_select": True, "options": ["red", "blue"]}]}
    token = await approval(talk, kind="question", tool="question", input=asked)
    await talk.handle(talk.people.press(f"a:{token}:0.done"))
    await talk.handle(talk.people.press(f"a:{token}:1.done"))
    words = [text for _, text in talk.platform.acknowledged]
    assert words == ["Pick at least one, or reply with an answer of your own.", "This button is not valid any more."]
    assert not any(request.url.path.endswith("/answer") for request in talk.requests)
    await talk.handle(talk.people.press(f"a:{token}:0.1"))
    talk.respond = lambda _: problem(409, "not_waiting")
    await talk.handle(talk.people.press(f"a:{token}:0.done"))
    assert talk.platform.acknowledged[2:] == [("i3", ""), ("i4", "")]


async def question(talk: Talk, token: str, **changed: Any) -> str:
    asked = {"questions": [{"question": "Where?"}]}
    given = {"session": f"{BOT}-{CHAT.id}-1", "tool": "question", "input": asked} | changed
    return await approval(talk, token=token, request=token, kind="question", **given)


def answers_of(talk: Talk) -> list[tuple[str, Any]]:
    posted = [json.loads(one.content) for one in talk.requests if one.url.path.endswith("/answer")]
    return [(one["id"], one.get("answers") or one["decision"]) for one in posted]


def answered(request: httpx2.Request) -> httpx2.Response:
    return problem(409, "not_waiting") if request.url.path.endswith("/answer") else nothing(request)


async def test_a_text_answers_the_question_also_beside_an_approval(talk: Talk) -> None:
    talk.respond = answered
    await approval(talk, code="K7")
    await question(talk, "t2")
    await talk.handle(talk.people.message("yes"))
    await talk.until(lambda: any("`yes K7`" in text for text in talk.platform.shown()))
    assert answers_of(talk) == []
    await talk.handle(talk.people.message("yes K7"))
    await talk.handle(talk.people.message("Berlin"))
    assert answers_of(talk) == [("r1", "once"), ("t2", [["Berlin"]])]


async def test_of_several_questions_a_text_answers_the_one_that_it_replies_to(talk: Talk) -> None:
    talk.respond = answered
    await question(talk, "t2")
    first = next(iter(talk.platform.messages))
    await question(talk, "t3")
    await talk.handle(talk.people.message("Paris", reply_to=first))
    assert answers_of(talk) == [("t2", [["Paris"]])]


async def test_an_approval_that_could_not_be_shown_is_shown_when_its_chat_is_open_again(talk: Talk) -> None:
    def refuse(_: str) -> None:
        raise ChatGone("the person has blocked the bot")

    talk.platform.before = refuse
    showing = asyncio.create_task(approval(talk))
    lost = "SELECT 1 FROM posts WHERE state = 'lost'"
    async with asyncio.timeout(60):
        while not await talk.database.run(lambda c: c.execute(lost).fetchone()):
            await asyncio.sleep(0.01)
    talk.platform.before = lambda _: None
    with pytest.raises(Later):  # the host is away
        await talk.handle(talk.people.message("I am back"))
    await showing
    assert talk.platform.shown()[0] == "Allow bash?"


async def test_a_message_that_waits_since_before_the_press_is_no_reason(talk: Talk) -> None:
    away = True

    def respond(request: httpx2.Request) -> httpx2.Response:
        if away:
            return nothing(request)
        return says("well said")(request) if request.url.path.endswith("/chat/stream") else problem(409, "not_waiting")

    talk.respond = respond
    token = await approval(talk)
    waits, press = talk.people.message("also check the logs"), talk.people.press(f"a:{token}:reason")
    with pytest.raises(Later):
        await talk.handle(waits)
    await talk.handle(press)
    pressed = SystemClock().now_ms()
    await talk.until(lambda: "with the reason" in talk.platform.shown()[0])
    away = False
    await talk.handle(waits)
    await talk.until(lambda: "well said" in talk.platform.shown())
    await talk.until(lambda: SystemClock().now_ms() > pressed)
    await talk.handle(talk.people.message("too risky"))
    answers = [json.loads(one.content) for one in talk.requests if one.url.path.endswith("/answer")]
    assert [one["reason"] for one in answers] == ["too risky"]


@pytest.mark.parametrize("aborted", [False, True], ids=["nothing runs", "another turn runs"])
async def test_a_stop_takes_back_what_waits_if_it_finds_no_turn(talk: Talk, aborted: bool) -> None:
    people, now = talk.people, SystemClock().now_ms()
    before = [people.message("one"), people.edit("9", "two"), people.press("s:ses_1"), people.message("of another")]
    for update, sender in zip(before, (ANN_ID, ANN_ID, ANN_ID, "telegram:2"), strict=True):
        await talk.database.run(partial(add_in, bot=BOT, update=update, sender=sender, stranger=False, now=now))
    talk.respond = lambda _: httpx2.Response(200, json={"session_id": "s", "aborted": aborted})
    await talk.handle(people.message("/stop"))
    words = "Stopped" if aborted else "is taken back"
    await talk.until(lambda: any(words in text for text in talk.platform.shown()))
    assert await talk.database.run(partial(count_waiting_in, bot=BOT, sender=ANN_ID)) == (3 if aborted else 1)
    assert await talk.database.run(partial(count_waiting_in, bot=BOT, sender="telegram:2")) == 1


@pytest.mark.parametrize(
    ("approvers", "hear"), [([], ["1", "2"]), ([ANN_ID], ["1"])], ids=["no approvers", "one approver"]
)
async def test_a_budget_of_an_agent_is_said_to_its_approvers(
    tmp_path: Path, approvers: list[str], hear: list[str]
) -> None:
    """Their bot has a token of these workspaces. The host repeats its events, as after a break."""
    used = {
        "type": "budget-warning",
        "scope": "agent:ada",
        "limit": "daily_usd",
        "percent": 80,
        "most": 2,
        "spent": 1.7,
    }
    data = [json.dumps(one) for one in ({**used, "workspace": WORKSPACE}, {**used, "workspace": "other"})]
    events = "".join(f"id: {at}\nevent: budget-warning\ndata: {one}\n\n" for at, one in enumerate(data, 1))
    asked = 0

    def respond(request: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        if request.url.path != "/events":
            return nothing(request)
        asked += 1
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events)

    talk = Talk(tmp_path, respond, approvers=frozenset(approvers))
    await talk.admit({"1": "telegram:1", "2": "telegram:2"})
    await talk.start()
    await talk.until(lambda: asked > 1 and len(talk.platform.messages) >= len(hear))
    assert sorted(one.chat for one in talk.platform.messages.values()) == hear
    (words,) = {one.piece.markdown for one in talk.platform.messages.values()}
    assert words == "⚠️ 80 % of the budget of ada are used: daily\\_usd, 1\\.7 of 2."
    await talk.kill()


async def test_a_failed_turn_that_a_reply_shows_comes_once_over_a_restart(tmp_path: Path) -> None:
    """The operator gets a line for each failure that comes, and would get this one at every start."""
    failed = {
        "type": "turn-finished", "reason": "error", "workspace": WORKSPACE, "user": ANN_ID, "session_id": "s",
        "message_id": "m",
    }  # fmt: skip
    positions: list[str | None] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/events":
            return nothing(request)
        positions.append(request.headers.get("last-event-id"))
        events = "" if positions[-1] == "7" else f"id: 7\nevent: turn-finished\ndata: {json.dumps(failed)}\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=events)

    database = await Database.open(tmp_path / NAME)
    reply = Reply(
        "k", BOT, CHAT.id, WORKSPACE, ANN_ID, "s", "m", "do it", "steer", None, None, ANN_ID, "Ann", "1", "done"
    )
    await database.run(lambda c: add_reply_in(c, reply))
    await database.run(lambda c: remember_chat_in(c, BOT, CHAT))
    await database.run(
        lambda c: add_post_in(c, BOT, CHAT.id, "k", [Piece("It has failed")], now=SystemClock().now_ms())
    )
    await database.aclose()
    talk = Talk(tmp_path, respond)
    for first in (None, "7"):
        positions.clear()
        await talk.start()
        await talk.until(lambda: "7" in positions and talk.platform.shown())
        await talk.kill()
        assert positions[0] == first
    assert talk.platform.shown() == ["It has failed"]


async def test_a_workspace_that_the_host_refuses_hides_no_approval_of_another(tmp_path: Path) -> None:
    waits = {
        "workspace": WORKSPACE, "agent": WORKSPACE, "user": ANN_ID, "session_id": "s", "message_id": "m", "id": "r1",
        "kind": "approval", "tool_call_id": "c1", "tool": "bash", "input": {"command": "ls"}, "since": 1,
        "expires_at": SystemClock().now_ms() + 60_000,
    }  # fmt: skip

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/pending":
            return nothing(request)
        if request.url.params["workspace"] == "old":
            return problem(403, "forbidden")
        return httpx2.Response(200, json={"pending": [waits]})

    talk = Talk(tmp_path, respond, workspaces=["old", WORKSPACE])
    await talk.admit({CHAT.id: ANN_ID})
    await talk.start()
    await talk.until(lambda: any("Allow bash" in one for one in talk.platform.shown()))
    await talk.kill()


async def test_what_is_taken_back_while_its_agent_is_away_is_not_sent_again(talk: Talk) -> None:
    def rewinds(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/rewind"):
            return nothing(request)
        message = {"id": "m", "role": "user", "parts": []}
        return httpx2.Response(200, json={"session_id": "s", "hidden": 2, "message": message})

    talk.respond = says("half", cut=True)
    await talk.handle(talk.people.message("do it"))
    await talk.until(lambda: talk.platform.shown() == ["half"])
    talk.respond = nothing
    await talk.until(lambda: "It goes on by itself" in talk.platform.shown()[0])
    back = talk.people.message("/rewind")
    with pytest.raises(Later):
        await talk.handle(back)
    assert followers(), "it was not taken back, and so it is followed"
    talk.respond = rewinds
    await talk.handle(back)
    assert not followers()
    await talk.until(lambda: "Taken back" in talk.platform.shown()[-1])
    await talk.kill()
    await talk.start()
    talk.respond = says("well said")
    await talk.handle(talk.people.message("hello"))
    await talk.until(lambda: talk.platform.shown()[-1] == "well said")


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_was_read_of_an_answer_stays_while_it_cannot_be_followed(talk: Talk, *, restarts: bool) -> None:
    read = ["a" * LENGTH, "b" * 100]
    talk.respond = says("".join(read), cut=True)
    await talk.handle(talk.people.message("do it"))
    await talk.until(lambda: talk.platform.shown() == read)
    talk.respond = nothing
    if restarts:
        await talk.kill()
        await talk.start()
    tried = chats(talk)
    await talk.until(lambda: chats(talk) >= tried + 3)
    assert "".join(talk.platform.shown()).startswith("".join(read))
    talk.respond = lambda _: problem(404, "not_found")
    await talk.until(lambda: "The agent refuses this" in "".join(talk.platform.shown()))
    assert "".join(talk.platform.shown()).startswith("".join(read))
    assert not followers()


@pytest.mark.parametrize("restarts", [False, True])
async def test_who_is_unpaired_gets_nothing_more_of_a_turn_that_runs(talk: Talk, *, restarts: bool) -> None:
    talk.respond = says("half", cut=True)
    await talk.handle(talk.people.message("do it"))
    await talk.until(lambda: talk.platform.shown() == ["half"])
    if restarts:
        await talk.kill()
    with opened(talk.folder / NAME) as other:
        unpair_in(other, ANN_ID, now=1)
        turn = other.execute("SELECT session, message_id FROM replies").fetchone()
    if restarts:
        await talk.start()
    else:
        await talk.conversations.end_removed()
    waits = {
        "workspace": WORKSPACE, "agent": WORKSPACE, "user": ANN_ID, "session_id": turn[0], "message_id": turn[1],
        "id": "r1", "kind": "approval", "tool_call_id": "c1", "tool": "bash", "input": {"command": "ls"}, "since": 1,
        "expires_at": SystemClock().now_ms() + 60_000,
    }  # fmt: skip

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/pending":
            return httpx2.Response(200, json={"pending": [waits]})
        return says("half and more")(request) if request.url.path.endswith("/chat/stream") else nothing(request)

    talk.respond = respond
    await talk.until(lambda: not followers())
    asked = pending(talk)
    for _ in range(2):
        talk.conversations._bots[BOT][1].look()
        asked += 1
        await talk.until(lambda asked=asked: pending(talk) >= asked)
    ended = "SELECT 1 FROM replies WHERE state = 'running' UNION ALL SELECT 1 FROM posts WHERE state = 'waiting'"
    assert await talk.database.run(lambda c: c.execute(ended).fetchall()) == []
    (text,) = talk.platform.shown()
    assert text.startswith("half")
    assert "more" not in text


async def test_an_approval_that_was_seen_before_its_reply_is_decided_by_who_wrote_the_message(talk: Talk) -> None:
    """A bot that dies after it has handed a message over stores the reply when it handles the message again."""
    group = f"telegram:{GROUP.id}"
    waits = {
        "workspace": WORKSPACE, "agent": WORKSPACE, "user": group, "session_id": "s", "message_id": "m", "id": "r1",
        "kind": "approval", "tool_call_id": "c1", "tool": "bash", "input": {"command": "ls"}, "since": 1,
        "expires_at": SystemClock().now_ms() + 60_000,
    }  # fmt: skip
    talk.respond = lambda one: (
        httpx2.Response(200, json={"pending": [waits]}) if one.url.path == "/pending" else nothing(one)
    )
    await talk.database.run(lambda c: remember_chat_in(c, BOT, GROUP))
    await talk.database.run(lambda c: let_in(c, BOT, ANN_ID))
    talk.conversations._bots[BOT][1].look()
    await talk.until(lambda: talk.platform.shown(GROUP))
    reply = Reply(
        "k", BOT, GROUP.id, WORKSPACE, group, "s", "m", "do it", "steer", None, None, ANN_ID, "Ann", "1", "done"
    )
    await talk.database.run(lambda c: add_reply_in(c, reply))
    talk.conversations._bots[BOT][1].look()
    found = await talk.database.run(lambda c: open_requests_in(c, BOT))
    async with asyncio.timeout(60):
        while found[0].requester != ANN_ID:
            await asyncio.sleep(0.01)
            found = await talk.database.run(lambda c: open_requests_in(c, BOT))
    assert [(one.requester_name, one.origin) for one in found] == [("Ann", None)]


async def test_the_files_of_an_answer_to_an_edited_message_are_sent_too(talk: Talk) -> None:
    def answers(text: str) -> Respond:
        chat = says(f"{text * 6 * LENGTH} [it](workspace:{text}.txt)")

        def respond(request: httpx2.Request) -> httpx2.Response:
            if "/workspace/" not in request.url.path:
                return chat(request)
            headers = {"ETag": '"1"', "Content-Length": str(len(text))}
            return httpx2.Response(200, headers=headers, content=b"" if request.method == "HEAD" else text)

        return respond

    def files() -> list[tuple[str, bytes]]:
        return sorted((one.file[0], one.file[1][:1]) for one in talk.platform.messages.values() if one.file)

    first = [("a.txt", b"a"), ("answer.md", b"a")]
    talk.respond = answers("a")
    message = talk.people.message("write it")
    await talk.handle(message)
    await talk.until(lambda: files() == first)
    talk.respond = answers("b")
    await talk.handle(talk.people.edit(message.message_id, "write it anew"))
    await talk.until(lambda: files() == sorted([*first, ("b.txt", b"b"), ("answer.md", b"b")]))


@pytest.mark.parametrize(
    ("runs", "shown"),
    [("own", "anew"), ("another", "Edit it when that has ended"), (None, "Edit it when that has ended")],
)
async def test_an_edit_stops_the_turn_of_its_own_message_alone(talk: Talk, runs: str | None, shown: str) -> None:
    """It may wait behind the turn of another person, or while the conversation is compacted."""
    talk.respond = says("half", cut=True)
    message = talk.people.message("/queue helo")
    await talk.handle(message)
    own = json.loads(talk.requests[-1].content)["message_id"]
    running = {"message_id": own if runs == "own" else runs} if runs else {}

    def respond(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/abort"):
            return httpx2.Response(200, json={"session_id": "s", "aborted": True})
        if not request.url.path.endswith("/chat/stream") or "messageId" not in json.loads(request.content):
            return nothing(request)
        return streamed(request, "anew") if aborts(talk) else problem(409, "session_busy", running=running)

    talk.respond = respond
    await talk.handle(talk.people.edit(message.message_id, "/queue hello"))
    assert aborts(talk) == (runs == "own")
    talk.respond = says("anew")
    await talk.until(lambda: any(shown in text for text in talk.platform.shown()))


async def test_what_has_joined_a_turn_is_not_lost_by_an_edit(talk: Talk) -> None:
    """The agent would answer the first message anew without the second."""
    talk.respond = says("both")
    first, second = talk.people.message("one"), talk.people.message("two")
    for message in (first, second):
        await talk.handle(message)
    await talk.until(lambda: talk.platform.shown() == ["both", "both"])
    await talk.database.run(lambda c: c.execute("UPDATE replies SET state = 'joined' WHERE position = 2"))
    asked = chats(talk)
    await talk.handle(talk.people.edit(first.message_id, "won"))
    await talk.until(lambda: "Only the last message" in talk.platform.shown()[-1])
    await talk.handle(talk.people.edit(second.message_id, "too"))
    await talk.until(lambda: "part of the answer to an earlier message" in talk.platform.shown()[-1])
    assert chats(talk) == asked


async def test_a_file_of_an_answer_that_is_empty_is_not_sent(talk: Talk) -> None:
    chat = says("See [it](workspace:empty.txt)")

    def respond(request: httpx2.Request) -> httpx2.Response:
        is_file = "/workspace/" in request.url.path
        return httpx2.Response(200, headers={"ETag": '"1"', "Content-Length": "0"}) if is_file else chat(request)

    talk.respond = respond
    await talk.handle(talk.people.message("write it"))
    await talk.until(lambda: any("is empty, so there is nothing to send" in one for one in talk.platform.shown()))
    assert not [one for one in talk.platform.messages.values() if one.file]


async def test_a_file_that_does_not_end_is_left_out(tmp_path: Path) -> None:
    """It comes on and on, and so would every attempt to fetch it again."""

    class Endless(MemoryPlatform):
        async def download(self, file: IncomingFile) -> AsyncGenerator[bytes]:
            while True:
                await asyncio.sleep(0.01)
                yield b"x"

    async def store(request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return httpx2.Response(201, headers={"ETag": '"1"'})

    talk = Talk(tmp_path, platform=Endless())
    await talk.start()
    names = ["a.txt", "b.txt"]
    update = talk.people.message("read", files=[IncomingFile(name, name, "text/plain", None) for name in names])
    async with Mesh("http://host", "token", transport=httpx2.MockTransport(store)) as mesh:
        context = talk.conversations._bots[BOT][0]
        received = await receive_files(context, mesh.agent(WORKSPACE, ANN_ID), update, seconds=0.3)
    assert received.stored == []
    assert received.refused == [f"📎 `{name}` was not taken: it did not arrive within 0.3 s." for name in names]
    await talk.kill()


async def test_what_cannot_be_read_is_told_where_nobody_else_is_meant(talk: Talk) -> None:
    await talk.handle(talk.people.message(""))
    await talk.handle(talk.people.message("", GROUP))
    await talk.handle(talk.people.message(" \u200b", forwarded_from="Eve"))
    await talk.until(lambda: len(talk.platform.messages) == 2)
    assert talk.platform.shown() == ["There is nothing in it that I can read."] * 2


async def test_a_reply_comes_with_the_words_that_it_replies_to(talk: Talk) -> None:
    """Not with the agent's latest ones, which it knows, unless a part of them was chosen."""
    talk.respond = says("well said")

    def asked() -> str:
        [*_, last] = [one for one in talk.requests if one.url.path.endswith("/chat/stream")]
        return json.loads(last.content)["message"].partition("\n\n[To send")[0]

    ben = Quote("failed: 503", Sender("2", "Ben"))
    await talk.handle(talk.people.message("what is it?", reply_to="m0", quote=ben))
    assert asked() == '[reply to "Ben" (telegram:2): "failed: 503"]\nwhat is it?'
    await talk.handle(talk.people.message("", reply_to="m0", quote=ben))
    assert asked() == '[reply to "Ben" (telegram:2): "failed: 503"]'
    await talk.until(lambda: talk.platform.shown()[1:] == ["well said"])
    own = Quote("well said", Sender("7", "Helper"), own=True)
    answer = list(talk.platform.messages)[-1]
    await talk.handle(talk.people.message("thanks", reply_to=answer, quote=replace(own, part=True)))
    assert asked() == '[reply to you: "well said"]\nthanks'
    await talk.until(lambda: talk.platform.shown()[2:] == ["well said"])
    answer = list(talk.platform.messages)[-1]
    await talk.handle(talk.people.message("good", reply_to=answer, quote=own))
    assert asked() == "good"
    await talk.handle(talk.people.message("/new"))
    await talk.handle(talk.people.message("again", reply_to=answer, quote=own))
    assert asked() == '[reply to you: "well said"]\nagain'


def pending(talk: Talk) -> int:
    """How often the bot has asked for what waits."""
    return sum(one.url.path == "/pending" for one in talk.requests)


def says(text: str, *, cut: bool = False) -> Respond:
    """An agent that gives this answer to every message."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        return streamed(request, text, cut=cut) if request.url.path.endswith("/chat/stream") else nothing(request)

    return respond


def chats(talk: Talk) -> int:
    """How often a turn was asked for."""
    return sum(request.url.path.endswith("/chat/stream") for request in talk.requests)


def aborts(talk: Talk) -> int:
    """How often a turn was stopped."""
    return sum(request.url.path.endswith("/abort") for request in talk.requests)


def followers() -> list[str]:
    """The turns that are followed."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith("follower of")]
