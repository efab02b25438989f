"""What was said in earlier sessions, found again: by whom, when, and until when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_runtime.memory.sources import session_indexer
from agent_runtime.ports import MemoryHit
from agent_runtime.sessions import branches, retention, rows

from .world import World, world

GARDEN = "The walnut tree in the garden was planted in 1998."


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as here:
        yield here


async def test_a_later_session_finds_what_was_said_and_by_whom(here: World) -> None:
    session = await here.begin()
    asked = await here.ask(session, "When was the walnut tree planted?")
    asked_at = here.clock.now_ms()
    await here.reply(asked, "I look into the garden book.", "It was planted in 1998, sesame-open.")
    found = await here.search("walnut tree", session_id="ses_other")
    assert found == [MemoryHit("When was the walnut tree planted?", f"session {session}", asked_at, author="user")]
    (answer,) = await here.search("1998")
    assert (answer.text, answer.author) == ("It was planted in 1998, [secret].", "assistant")
    assert await here.texts("garden book") == [], "what was said on the way is not the answer"
    assert await here.texts("walnut tree", principal="bob") == []


async def test_what_is_not_settled_is_found_once_it_is(here: World) -> None:
    session, other = await here.begin(), await here.begin()
    running = await here.ask(session, "What about the walnut tree?")
    queued = await here.ask(session, "And the hazel bush?", queued=True)
    await here.reply(running, "The walnut tree is", ended=False)
    await here.talk(other, "Something about the cherry tree?", "No.")
    assert await here.texts("walnut tree hazel bush cherry") == ["Something about the cherry tree?"]
    await here.reply(running, "The walnut tree is old.")
    assert set(await here.texts("walnut")) == {"What about the walnut tree?", "The walnut tree is old."}
    await here.write(lambda c: rows.start_turn(c, queued.message_id, here.clock.now_ms()))
    await here.reply(queued, "The hazel bush is young.")
    assert set(await here.texts("hazel")) == {"And the hazel bush?", "The hazel bush is young."}
    assert await here.count("memory_unsettled") == 0


async def test_what_is_taken_back_is_not_found_until_it_comes_back(here: World) -> None:
    session = await here.begin()
    turn = await here.talk(session, "Note this.", GARDEN)
    assert await here.texts("walnut") == [GARDEN]
    await here.rewind(turn)
    assert await here.texts("walnut") == []
    await here.write(lambda c: branches.unrewind(c, session, here.clock.now_ms()))
    assert await here.texts("walnut") == [GARDEN]
    await here.write(lambda c: rows.archive(c, session, here.clock.now_ms()))
    assert await here.texts("walnut") == []
    await here.write(lambda c: branches.unarchive(c, session, here.clock.now_ms()))
    assert await here.texts("walnut") == [GARDEN]


async def test_what_was_said_before_a_reset_is_found_until_it_is_put_away_for_good(here: World) -> None:
    session = await here.begin()
    await here.talk(session, "Note this.", GARDEN)

    async def put_away(*, succeeded: bool) -> list[str]:
        now = here.clock.now_ms()
        await here.write(lambda c: rows.archive(c, session, now, succeeded=succeeded))
        assert await here.texts("walnut", principal="bob") == []
        return await here.texts("walnut")

    assert await put_away(succeeded=True) == [GARDEN]
    assert await put_away(succeeded=True) == [GARDEN]
    assert await put_away(succeeded=False) == []
    assert await put_away(succeeded=True) == [], "a reset brings back nothing"
    await here.write(lambda c: branches.unarchive(c, session, here.clock.now_ms()))
    assert await put_away(succeeded=True) == [GARDEN]
    await here.write(lambda c: branches.unarchive(c, session, here.clock.now_ms()))
    assert await put_away(succeeded=False) == []


async def test_the_session_itself_is_found_where_its_model_does_not_see_it(here: World) -> None:
    session = await here.begin()
    await here.talk(session, "Note this.", GARDEN)
    tail = await here.talk(session, "And the hazel bush?", "It is young.")
    assert await here.texts("walnut hazel", session_id=session) == []
    await here.compact(session, tail)
    assert await here.texts("walnut hazel", session_id=session) == [GARDEN]
    assert await here.texts("summary") == []
    await here.compact(session, None)
    assert set(await here.texts("walnut hazel", session_id=session)) == {GARDEN, "And the hazel bush?"}


async def test_copies_are_told_once_and_asides_not_at_all(here: World) -> None:
    session = await here.begin()
    turn = await here.talk(session, "Note this.", GARDEN)
    whole = await here.fork(session)
    aside = await here.fork(session, ephemeral=True)
    await here.talk(aside, "And the hazel bush?", "It is young.")
    helper = await here.begin(parent=(session, turn.message_id))
    await here.talk(helper, "Look for the cherry tree.", "There is a cherry tree.")
    assert await here.texts("walnut hazel cherry") == [GARDEN]
    await here.write(lambda c: rows.archive(c, session, here.clock.now_ms()))
    assert await here.texts("walnut") == [GARDEN], "the fork is still there"
    await here.write(lambda connection: retention.hide_unfinished(connection, whole))
    assert await here.texts("walnut") == [], "a session that is still being written"
    await here.write(lambda connection: retention.show_finished(connection, whole))
    assert await here.texts("walnut") == [GARDEN]


async def test_long_texts_are_found_by_their_passages(here: World) -> None:
    session = await here.begin()
    filler = "\n\n".join(f"Paragraph {n} speaks of number {n * 7919} and of little else." for n in range(200))
    await here.talk(session, "Tell me all.", f"{filler}\n\n{GARDEN}\n\n{filler}")
    (found,) = await here.texts("walnut tree planted", limit=1)
    assert GARDEN in found
    assert len(found) < 1000
    assert await here.count("memory_entries") <= session_indexer.MAX_PASSAGES + 1


async def test_what_is_too_much_goes_the_oldest_first(here: World) -> None:
    here.memory._indexer._session_indexer._max_passages = 10
    session = await here.begin()
    for number in range(20):
        await here.talk(session, f"Question {number}", f"Answer {number}")
    await here.search("anything")
    kept = await here.rows("SELECT text FROM memory_entries ORDER BY id")
    assert len(kept) <= 11
    assert kept[-1][0] == "Answer 19"
    await here.write(lambda c: c.execute("INSERT INTO memory_index (memory_index) VALUES ('integrity-check')"))


async def test_a_life_that_died_in_between_leaves_nothing_twice(here: World) -> None:
    session = await here.begin()
    long = "\n\n".join(f"Paragraph {n} " + "speaks of the walnut tree and of the hazel bush. " * 8 for n in range(30))
    await here.talk(session, "Tell me all.", long)
    await here.search("walnut")
    before = await here.rows("SELECT text FROM memory_entries ORDER BY id")
    await here.write(lambda c: c.execute("DELETE FROM memory_state"))  # as if nothing had been reached
    await here.write(lambda c: c.execute("DELETE FROM memory_entries WHERE id % 3 = 7"))
    await here.search("walnut")
    assert sorted(map(tuple, await here.rows("SELECT text FROM memory_entries"))) == sorted(map(tuple, before))


async def test_a_search_with_nothing_new_writes_nothing(here: World) -> None:
    session = await here.begin()
    await here.talk(session, "Note this.", GARDEN)
    for _ in range(3):
        await here.texts("walnut")
    commits = here.database.commits
    answer = await here.memory.search("walnut", principal="ada")
    assert answer.complete
    assert here.database.commits == commits


async def test_a_long_past_is_read_while_searches_are_answered(here: World) -> None:
    session = await here.begin()
    text = "\n\n".join("speaks of the walnut tree and of the hazel bush. " * 8 for _ in range(40))
    for number in range(60):
        await here.talk(session, f"Question {number}", f"{number} {text}")
    first = await here.memory.search("walnut", principal="ada")
    assert not first.complete
    await here.memory._indexer._session_task.start()
    assert (await here.memory.search("walnut", principal="ada")).complete
