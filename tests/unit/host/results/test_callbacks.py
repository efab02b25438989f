"""Callbacks: each arrives at least once with the right signature, and nothing that a caller names is called blindly."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import random
import secrets
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from agent_common.backoff import Backoff
from agent_common.clock import Clock, SystemClock
from agent_common.protocol import TaskResult
from agent_host.callback_targets import CallbackTargets
from agent_host.database import HostDatabase, open_database, task_results
from agent_host.results import CallbackPolicy, CallbackQueue, CallbackSender
from agent_host.results.callbacks.sender import HOST_AT_ONCE, MAX_ATTEMPTS

from .receiver import OK, Received, Receiver, reply

SECRETS = {"a": "s-a", "b": "s-b"}
LOCAL = CallbackTargets.from_names(["127.0.0.1", "localhost"])


class Post:
    """Queues callbacks and sends them, with short pauses."""

    def __init__(
        self,
        database: HostDatabase,
        targets: CallbackTargets = LOCAL,
        *,
        seconds: float = 20,
        pause: float = 0.05,
        clock: Clock | None = None,
    ) -> None:
        self.database, self.failed = database, list[tuple[str, str, str]]()
        self.secrets: dict[str, str] = dict(SECRETS)
        policy = CallbackPolicy(targets, self.secrets.get, lambda *what: self.failed.append(what))
        queue, pauses = CallbackQueue(database), Backoff(0.01, pause)
        self.sender = CallbackSender(queue, policy, clock or SystemClock(), pauses, request_seconds=seconds)

    async def queue(self, url: str, task_id: str = "t1", workspace: str = "a", **changes: Any) -> None:
        host = url.split("/")[2].partition(":")[0]
        result = TaskResult(task_id=task_id, status="complete", result={"n": task_id})
        row = {
            "workspace": workspace, "task_id": task_id, "principal": "ann", "finished_at": 1, "recorded_at": 2,
            "result": result.model_dump_json(), "truncated": False, "delivery": secrets.token_hex(8),
            "delivery_url": url, "delivery_host": host, "delivery_state": "pending", "delivery_next_at": 3, **changes,
        }  # fmt: skip
        await self.database.run(lambda connection: connection.execute(insert(task_results).values(row)))
        self.sender.wake()

    async def rows(self) -> list[dict[str, Any]]:
        query = select(task_results).order_by(task_results.c.id)
        return await self.database.run(lambda connection: [dict(row) for row in connection.execute(query).mappings()])

    async def until(self, state: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits until so many are in this state; those that failed are told after they were written."""
        async with asyncio.timeout(60):
            while [row["delivery_state"] for row in await self.rows()].count(state) < count:
                await asyncio.sleep(0.01)
            while state == "failed" and len(self.failed) < count:
                await asyncio.sleep(0.01)
        return await self.rows()


@asynccontextmanager
async def sending(post: Post) -> AsyncGenerator[Post]:
    post.sender.start()
    try:
        yield post
    finally:
        await post.sender.close()


@pytest.fixture
def database(tmp_path: Path) -> Any:
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        yield database


def signed(request: Received, secret: str) -> bool:
    digest = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    return request.headers["x-agent-signature"] == f"sha256={digest}"


async def test_a_receiver_that_fails_half_the_time_gets_each_result_at_least_once(database: HostDatabase) -> None:
    dice = random.Random(7)
    taken: Counter[str] = Counter()

    def answer(request: Received) -> bytes:
        kind = dice.choice(("ok", "ok", "500", "cut"))
        if kind == "ok":
            taken[request.headers["x-agent-delivery"]] += 1
        return {"ok": OK, "500": reply(500), "cut": b""}[kind]

    async with Receiver(answer) as receiver, sending(Post(database)) as post:
        for number in range(40):
            await post.queue(receiver.url(f"/{number}"), f"t{number}", "ab"[number % 2])
        rows = await post.until("delivered", 40)
    assert set(taken) == {row["delivery"] for row in rows}
    for request in receiver.received:
        body = json.loads(request.body)
        assert signed(request, SECRETS[body["workspace"]])
        assert body.keys() == {
            "workspace", "task_id", "user", "result", "truncated", "finished_at", "recorded_at",
        }  # fmt: skip
    assert post.failed == []
    assert receiver.most_open <= HOST_AT_ONCE


async def test_a_dead_receiver_holds_up_no_other(database: HostDatabase) -> None:
    async with Receiver(lambda _: None) as dead, Receiver() as alive, sending(Post(database, seconds=30)) as post:
        for number in range(20):
            await post.queue(dead.url().replace("127.0.0.1", "localhost"), f"dead{number}")
        await post.queue(alive.url(), "alive")
        await post.until("delivered")
        assert len(alive.received) == 1
        await dead.until(lambda: len(dead.received) == HOST_AT_ONCE)
        assert dead.most_open == HOST_AT_ONCE


async def test_results_that_wait_take_no_memory(database: HostDatabase) -> None:
    dense = TaskResult(task_id="t", status="complete", result={"x": [{"": 0}] * 20_000}).model_dump_json()
    async with Receiver(lambda _: None) as dead:
        post = Post(database)
        for number in range(30):
            await post.queue(dead.url(), f"t{number}", result=dense)
        tracemalloc.start()
        try:
            async with sending(post):
                await dead.until(lambda: len(dead.received) == HOST_AT_ONCE)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 16 << 20
    assert {json.dumps(json.loads(one.body)["result"]["result"]) for one in dead.received} == {
        json.dumps({"x": [{"": 0}] * 20_000})
    }


async def test_a_result_that_is_deleted_before_it_is_sent_is_not_sent(database: HostDatabase) -> None:
    post, queue = Post(database), CallbackQueue(database)
    await post.queue("http://127.0.0.1/")
    (callback,) = await queue.due(SystemClock().now_ms(), 1, running=(), busy_hosts=(), busy=())
    await database.run(lambda connection: connection.execute(delete(task_results)))
    assert await queue.body(callback) is None


async def test_what_was_under_way_when_the_host_died_is_sent_again(database: HostDatabase) -> None:
    async with Receiver(lambda _: None) as receiver:
        async with sending(Post(database)) as post:
            await post.queue(receiver.url())
            await receiver.until(lambda: len(receiver.received) == 1)
        receiver.answer = lambda _: OK
        async with sending(Post(database)) as post:
            (row,) = await post.until("delivered")
    first, second = receiver.received
    assert first == second
    assert first.headers["x-agent-delivery"] == row["delivery"]


async def test_a_wall_clock_that_went_back_does_not_delay_what_waits(database: HostDatabase) -> None:
    async with Receiver() as receiver:
        post = Post(database)
        await post.queue(receiver.url(), delivery_next_at=SystemClock().now_ms() + 10**10)
        async with sending(post):
            await post.until("delivered")


async def test_a_wall_clock_that_goes_back_does_not_delay_the_next_attempt(database: HostDatabase) -> None:
    class SetBack(SystemClock):
        milliseconds = SystemClock().now_ms()

        def now_ms(self) -> int:
            return self.milliseconds

    clock = SetBack()
    async with Receiver(lambda _: reply(503)) as receiver, sending(Post(database, clock=clock)) as post:
        await post.queue(receiver.url())
        async with asyncio.timeout(60):
            while (await post.rows())[0]["delivery_attempts"] == 0:
                await asyncio.sleep(0.01)
            clock.milliseconds -= 86_400_000
            post.sender.wake()
            while (await post.rows())[0]["delivery_attempts"] == 1:
                await asyncio.sleep(0.01)
                clock.milliseconds += 10


async def test_redirects_are_not_followed_and_410_ends_it(database: HostDatabase) -> None:
    async with Receiver() as other, Receiver() as receiver, sending(Post(database)) as post:
        answers = [reply(307, f"location: {other.url()}"), reply(410)]
        receiver.answer = lambda _: answers[min(len(receiver.received), 1)]
        await post.queue(receiver.url())
        (row,) = await post.until("failed")
        assert (row["delivery_attempts"], row["delivery_error"]) == (2, "the receiver answered 410")
    assert other.received == []
    assert post.failed == [("a", "t1", "after 2 attempts: the receiver answered 410")]


async def test_it_is_given_up_after_many_attempts(database: HostDatabase) -> None:
    async with Receiver(lambda _: reply(503)) as receiver, sending(Post(database)) as post:
        await post.queue(receiver.url(), delivery_attempts=MAX_ATTEMPTS - 2)
        (row,) = await post.until("failed")
    assert (row["delivery_attempts"], len(receiver.received)) == (MAX_ATTEMPTS, 2)
    assert len(post.failed) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "must begin with https://"),
        ("http://127.0.0.1/", "must begin with https://"),
        ("https://127.0.0.1/", "this machine itself"),
        ("https://169.254.169.254/latest/meta-data", "metadata service"),
        ("https://10.1.2.3/", "a private network"),
        ("https://[::1]/", "not public"),
        ("https://[::ffff:10.0.0.1]/", "a private network"),
        ("https://metadata.google.internal/", "inner networks"),
        ("https://localhost/", "inner networks"),
        ("https://example.org:22/", "port 22"),
        ("https://ann:secret@example.org/", "user name"),
        ("https://2130706433/", "odd way"),
    ],
)
async def test_what_may_not_be_called_is_never_called(database: HostDatabase, url: str, why: str) -> None:
    async with sending(Post(database, CallbackTargets())) as post:
        await post.queue(url)
        (row,) = await post.until("failed")
    assert why in row["delivery_error"]
    assert row["delivery_attempts"] == 1


async def test_a_workspace_without_a_secret_gets_its_callbacks_once_it_has_one(database: HostDatabase) -> None:
    async with Receiver() as receiver, sending(Post(database, pause=5)) as post:
        await post.queue(receiver.url(), workspace="old")
        async with asyncio.timeout(60):
            while "set one by PATCH" not in ((await post.rows())[0]["delivery_error"] or ""):
                await asyncio.sleep(0.01)
        assert receiver.received == []
        post.secrets["old"] = "s-old"
        await post.until("delivered")
    assert signed(receiver.received[0], "s-old")


class Hurried(SystemClock):
    """A second passes from each look at it to the next."""

    looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() + 1000 * self.looks


async def test_what_becomes_due_between_two_looks_is_not_waited_for_in_vain(database: HostDatabase) -> None:
    soon = SystemClock().now_ms() + 2500  # after the look for what is due, before the one for what is due next
    async with Receiver() as receiver:
        post = Post(database, pause=60, clock=Hurried())
        await post.queue(receiver.url(), delivery_next_at=soon)
        async with sending(post):
            await post.until("delivered")


async def test_an_attempt_that_ends_after_its_workspace_was_deleted_changes_nothing(database: HostDatabase) -> None:
    post, queue = Post(database), CallbackQueue(database)
    await post.queue("http://127.0.0.1/")
    (callback,) = await queue.due(SystemClock().now_ms(), 1, running=(), busy_hosts=(), busy=())
    change = update(task_results).values(delivery_state="failed", delivery_error="deleted")
    await database.run(lambda connection: connection.execute(change))
    await queue.mark_delivered(callback)
    assert [(row["delivery_state"], row["delivery_error"]) for row in await post.rows()] == [("failed", "deleted")]
