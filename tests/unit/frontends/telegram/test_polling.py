"""The loop that takes updates, and when it tells Telegram that they may be forgotten."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from agent_common.backoff import Backoff
from agent_testing import ManualClock
from frontends.platform import AnotherCopy, PlatformError, TemporarilyUnavailable, TokenRejected
from frontends.telegram.incoming.polling import PollingLoop

LOST = TemporarilyUnavailable("Telegram cannot be reached (ReadError)")
COPY = AnotherCopy("another process receives the updates of this bot")
Answer = list[dict[str, Any]] | PlatformError


def batch(*numbers: int) -> list[dict[str, Any]]:
    return [{"update_id": number} for number in numbers]


class Script:
    """A Telegram that gives these answers, one after the other, and then none."""

    def __init__(self, *answers: Answer, seconds: float = 0.0) -> None:
        self._answers = list(answers)
        self._seconds = seconds
        self.clock = ManualClock()
        self.asked: list[tuple[int | None, float]] = []
        self.taken: list[list[int]] = []
        self.empty = asyncio.Event()

    async def poll(self, offset: int | None, seconds: float) -> list[dict[str, Any]]:
        self.asked.append((offset, seconds))
        self.clock.advance(self._seconds)
        if not self._answers:
            self.empty.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, PlatformError):
            raise answer
        return answer

    async def take(self, updates: list[dict[str, Any]]) -> None:
        self.taken.append([update["update_id"] for update in updates])

    def loop(self) -> PollingLoop:
        pauses = Backoff(first=0.0, most=0.0)
        return PollingLoop(
            self.poll,
            self.take,
            clock=self.clock,
            poll_seconds=50,
            conflict_seconds=60,
            album_seconds=0.0,
            pauses=pauses,
        )

    async def play(self) -> None:
        """Run the loop until all answers are used."""
        running = asyncio.create_task(self.loop().run())
        used = asyncio.create_task(self.empty.wait())
        await asyncio.wait([running, used], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        used.cancel()
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait([running])


async def test_a_batch_is_confirmed_by_the_poll_after_it_was_stored() -> None:
    script = Script(batch(5, 7, 6), batch(3), [], batch(1))
    await script.play()
    assert script.taken == [[5, 7, 6], [3], [1]]
    assert [offset for offset, _ in script.asked] == [None, 8, 4, None, 2]


async def test_what_was_not_stored_is_not_confirmed() -> None:
    script = Script(batch(5))

    async def full(_: Any) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await PollingLoop(script.poll, full, clock=script.clock).run()
    assert [offset for offset, _ in script.asked] == [None]


async def test_an_outage_keeps_the_offset_and_is_logged_when_it_begins_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(batch(5), *[LOST] * 4, [], LOST, [])
    with caplog.at_level(logging.INFO):
        await script.play()
    assert script.asked == [(None, 50), (6, 50), *[(6, 0)] * 4, (None, 50), (None, 0), (None, 50)]
    assert [record.getMessage() for record in caplog.records] == [
        "no updates from Telegram",
        "updates from Telegram again",
    ]


async def test_updates_without_numbers_are_no_answer() -> None:
    script = Script([{"message": {}}], batch(1))
    await script.play()
    assert script.taken == [[1]]


async def test_a_token_that_is_revoked_ends_the_loop() -> None:
    with pytest.raises(TokenRejected):
        await Script(batch(1), TokenRejected("gone")).play()


async def test_another_copy_that_is_ending_is_waited_for() -> None:
    script = Script(*[COPY] * 5, [], *[COPY] * 5, batch(1), seconds=5)
    await script.play()
    assert script.taken == [[1]]


async def test_another_copy_that_stays_is_named() -> None:
    answers: list[Answer] = [COPY, batch(1), COPY, []] * 20
    with pytest.raises(AnotherCopy):
        await Script(*answers, seconds=5).play()


async def test_copies_that_come_and_go_over_the_days_are_none_that_stays() -> None:
    answers: list[Answer] = [COPY, [], []] * 20
    await Script(*answers, seconds=40).play()


async def test_telegram_is_asked_again_when_it_says() -> None:
    script = Script(TemporarilyUnavailable("wait", retry_after=0.01, refused=True), batch(1))
    await script.play()
    assert script.taken == [[1]]


@pytest.mark.parametrize("last", [batch(), LOST])
async def test_an_album_whose_first_part_ends_a_poll_is_taken_as_one(last: Answer) -> None:
    first, second = ({"update_id": number, "message": {"media_group_id": "7"}} for number in (1, 2))
    script = Script([first], [first, second], last, batch(3))
    await script.play()
    assert script.taken == [[1, 2], [3]]
    assert [offset for offset, _ in script.asked] == [None, None, None, 3, 4]
