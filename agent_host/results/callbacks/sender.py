"""Send the callbacks that are due, at least once each, until they are answered or a day has passed.

All that is waited for is in the database: a host that is killed sends again what was under way. A receiver that does
not answer holds up neither other receivers nor other workspaces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.errors import ToolFailure
from agent_common.net import post

from ...callback_targets import CallbackTargets
from .queue import Callback, CallbackQueue
from .request import callback_headers

log = structlog.get_logger(__name__)
AT_ONCE = 64
HOST_AT_ONCE = 4
WORKSPACE_AT_ONCE = 16
"""Most requests at a time: of all, to one host, and of one workspace."""
REQUEST_SECONDS = 20.0
FIRST_RETRY_SECONDS = 2.0
LAST_RETRY_SECONDS = 3600.0
MAX_ATTEMPTS = 36
"""With these pauses the last one comes about a day after the first."""
DATABASE_RETRY_SECONDS = 5.0
CLOCK_SECONDS = 60.0
"""Longest time until the wall clock is looked at again: it may go back while a callback waits for its time."""
_GONE = 410
"""A receiver that answers this wants no more attempts."""


@dataclass(frozen=True, slots=True)
class CallbackPolicy:
    """What the sender must know of workspaces and URLs."""

    targets: CallbackTargets
    secret_of: Callable[[str], str | None]
    """Returns the secret of a workspace; None if it has none yet."""
    on_failed: Callable[[str, str, str], None]
    """Called with the workspace, the task and the reason when a callback is given up."""


class _Refused(Exception):
    """No further attempt would succeed."""


class CallbackSender:
    """Sends until it is closed. `wake` it when a callback was queued."""

    def __init__(
        self,
        queue: CallbackQueue,
        policy: CallbackPolicy,
        clock: Clock,
        pauses: Backoff | None = None,
        *,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._queue = queue
        self._policy = policy
        self._clock = clock
        self._pauses = pauses or Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, jitter=0.2)
        self._request_seconds = request_seconds
        self._news = asyncio.Event()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._hosts: Counter[str] = Counter()
        self._workspaces: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="callbacks")

    def wake(self) -> None:
        self._news.set()

    async def close(self) -> None:
        """Stop. What is under way is sent again by the next process."""
        tasks = [*([self._task] if self._task is not None else []), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------- which

    async def _run(self) -> None:
        last: int | None = None
        while True:
            self._news.clear()
            try:
                now = self._clock.now_ms()  # one for all: what is due between two looks would be waited for in vain
                if last is None or now < last:
                    await self._queue.forget_future(now + round(self._pauses.most * 1000))
                last = now
                started = await self._start_due(now)
                wait = None if started else await self._seconds_until_due(now)
            except Exception as error:  # noqa: BLE001  the database may work again in a moment
                log.error("callbacks_not_read", why=str(error).splitlines()[0])
                started = 0
                wait = DATABASE_RETRY_SECONDS
            if not started:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._news.wait()

    async def _start_due(self, now: int) -> int:
        """Start requests for what is due, within the limits. Returns their number."""
        free = AT_ONCE - len(self._running)
        if free <= 0:
            return 0
        due = await self._queue.due(
            now,
            free,
            running=[*self._running],
            busy_hosts=_at_limit(self._hosts, HOST_AT_ONCE),
            busy=_at_limit(self._workspaces, WORKSPACE_AT_ONCE),
        )
        return sum(self._start(callback) for callback in due)

    def _start(self, callback: Callback) -> bool:
        workspace = callback.workspace
        if self._hosts[callback.host] >= HOST_AT_ONCE or self._workspaces[workspace] >= WORKSPACE_AT_ONCE:
            return False
        self._hosts[callback.host] += 1
        self._workspaces[workspace] += 1
        task = asyncio.create_task(self._deliver(callback), name=f"callback {callback.delivery}")
        self._running[callback.row_id] = task
        task.add_done_callback(lambda _: self._on_done(callback))
        return True

    def _on_done(self, callback: Callback) -> None:
        del self._running[callback.row_id]
        self._hosts -= Counter((callback.host,))  # drops the names that have reached nought
        self._workspaces -= Counter((callback.workspace,))
        self._news.set()

    async def _seconds_until_due(self, now: int) -> float | None:
        """Return the seconds until the next callback after `now` is due, or until the clock is to be looked at; None if
        none waits for its time."""
        at = await self._queue.next_due(now)
        if at is None:
            return None
        return min(max(0, at - self._clock.now_ms()) / 1000, CLOCK_SECONDS)

    # ---------------------------------------------------------------- one

    async def _deliver(self, callback: Callback) -> None:
        """Make one attempt and write what became of it. Until that is written the callback counts as running, so that a
        database that fails does not make the host call its receivers without a pause."""
        error, final = await self._attempt(callback)
        while True:
            try:
                await self._write_outcome(callback, error, final=final)
                return
            except Exception as failure:  # noqa: BLE001  as above
                log.error("callback_not_recorded", delivery=callback.delivery, why=str(failure).splitlines()[0])
                await asyncio.sleep(DATABASE_RETRY_SECONDS)

    async def _write_outcome(self, callback: Callback, error: str | None, *, final: bool) -> None:
        attempts = callback.attempts + 1
        if error is None:
            await self._queue.mark_delivered(callback)
        elif final or attempts >= MAX_ATTEMPTS:
            await self._queue.mark_failed(callback, error)
            log.warning("callback_failed", workspace=callback.workspace, task_id=callback.task_id, why=error)
            self._policy.on_failed(callback.workspace, callback.task_id, f"after {attempts} attempts: {error}")
        else:
            pause = self._pauses.pause(attempts)
            await self._queue.retry_at(callback, self._clock.now_ms() + round(pause * 1000), error)

    async def _attempt(self, callback: Callback) -> tuple[str | None, bool]:
        """Send the request. Returns why it failed, or None, and whether that is final."""
        try:
            status = await self._send(callback)
        except _Refused as refused:
            return str(refused), True
        except ToolFailure as failure:
            return str(failure), failure.kind in ("denied", "invalid")
        except Exception as error:
            log.exception("callback_broke", delivery=callback.delivery)
            return f"internal error: {type(error).__name__}", False
        return (None, False) if 200 <= status < 300 else (f"the receiver answered {status}", status == _GONE)

    async def _send(self, callback: Callback) -> int:
        url = self._policy.targets.check(callback.url)
        workspace = callback.workspace
        secret = self._policy.secret_of(workspace)
        if secret is None:
            raise ToolFailure(f"the workspace has no result_secret: set one by PATCH /workspaces/{workspace}")
        body = await self._queue.body(callback)
        if body is None:
            raise _Refused("its result was deleted")
        headers = callback_headers(callback.delivery, body, secret)
        rules = self._policy.targets.rules_for(url)
        return await post(url, body, headers, rules=rules, seconds=self._request_seconds)


def _at_limit(counts: Counter[str], most: int) -> list[str]:
    return [name for name, count in counts.items() if count >= most]
