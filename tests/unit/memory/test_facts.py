"""Facts in a real database: what is kept, what is found, and what comes first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.memory import MemoryService
from agent_runtime.memory.service import MAX_FACT_LENGTH, MAX_KEPT, MAX_KEPT_LENGTH
from agent_runtime.ports import MemoryHit
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.store import Backup, Database

from .world import World, world

DAY = 86_400


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, max_facts=50) as here:
        yield here


async def test_a_fact_is_found_by_its_words_and_says_where_it_is_from(here: World) -> None:
    saved = await here.save("Grandma's dentist is Dr. Weber in Mill Lane.", tags=["family"])
    await here.save("The deploy script runs on Fridays.")
    (found,) = await here.search("which dentist does grandma go to?")
    assert found == MemoryHit(
        text="Grandma's dentist is Dr. Weber in Mill Lane.",
        source="fact",
        written_at=here.clock.now_ms(),
        id=saved.id,
        author="agent",
        tags=("family",),
    )
    assert await here.texts("family") == [found.text]
    assert await here.texts("zebra") == []
    assert await here.texts("?!") == []


@pytest.mark.parametrize(
    ("fact", "query"),
    [
        ("Der Zahnarzttermin ist am Dienstag.", "Wann muss ich zum Zahnarzt?"),
        ("Die Kinder spielen donnerstags Schach.", "Wer spielte das Schachspiel?"),
        ("Las facturas vencen a sesenta días.", "¿cuándo vence la factura?"),
        ("Бабушка живёт на Садовой улице.", "где живет бабушка"),
        ("用户的狗叫豆豆。", "狗"),
        ("张医生的诊所在人民路。", "医生"),
        ("猫の名前はタマです。", "名前"),
        ("할머니는 수요일에 병원에 가신다.", "병원"),
        ("คุณยายไปหาหมอฟันทุกวันพุธ", "หมอฟัน"),
        ("القطة اسمها لولو.", "قطتنا"),
        ("हमारी बिल्ली का नाम मिठू है।", "बिल्ली"),
        ("ბებია ოთხშაბათს მიდის ექიმთან.", "ბებიას"),
        ("Տատիկը գնում է բժշկի", "տատիկ"),
        ("አያቴ ረቡዕ ወደ ሐኪም ትሄዳለች።", "ሐኪም"),
        ("நாயின் பெயர் மணி.", "நாயின்"),
        ("🐶 is called Rex", "🐶"),
        ("Frau Müller kommt.", "Mueller"),
        ("Frau Mueller kommt.", "Müller"),
        ("The café is in Łódź.", "cafe lodz"),
        ("Run deploy_release.sh first.", "deploy release"),
    ],
)
async def test_every_script_is_searchable(here: World, fact: str, query: str) -> None:
    await here.save(fact)
    await here.save("Nothing of the kind, 完全不同, совсем другое.")
    assert (await here.texts(query))[:1] == [fact]


async def test_the_same_fact_is_kept_once_and_made_fresh(here: World) -> None:
    first = await here.save("The cat is called Biscuit.", tags=["cat"])
    here.clock.advance(DAY)
    again = await here.save("the cat is  called BISCUIT", tags=["pets"])
    assert (first.known, again.known, again.id) == (False, True, first.id)
    (found,) = await here.search("pets")
    assert (found.written_at, found.tags) == (here.clock.now_ms(), ("cat", "pets"))
    assert await here.count("memory_facts") == 1
    assert (await here.save("The cat is called Biscuit 2.")).known is False


async def test_what_is_forgotten_leaves_nothing_behind(here: World) -> None:
    kept = await here.save("The bins are collected on Tuesday.", tags=["home"])
    gone = await here.save("The plumber is called Julian and works on Saturday.", tags=["home"])
    assert await here.memory.forget(gone.id, principal="ada") == "The plumber is called Julian and works on Saturday."
    assert await here.texts("plumber Julian") == []
    assert [one.id for one in await here.search("home")] == [kept.id]
    with pytest.raises(ToolFailure, match=f"there is no fact {gone.id}"):
        await here.memory.forget(gone.id, principal="ada")
    await here.memory.forget(kept.id, principal="ada")
    for table in ("memory_facts", "memory_entries", "memory_terms"):
        assert await here.count(table) == 0, table
    totals = await here.rows("SELECT * FROM memory_scopes")
    assert [(row["entries"], row["length"]) for row in totals] == [(0, 0)]
    await here.write(
        lambda connection: connection.execute("INSERT INTO memory_index (memory_index) VALUES ('integrity-check')")
    )


async def test_of_what_fits_alike_the_fresh_and_the_used_come_first(here: World) -> None:
    await here.save("Anna likes tea.")
    here.clock.advance(60 * DAY)
    await here.save("Anna likes rum.")
    assert await here.texts("what does Anna like") == ["Anna likes rum.", "Anna likes tea."]
    here.clock.advance(60)
    assert await here.texts("rum") == ["Anna likes rum."], "a look a minute later is the same look"
    for _ in range(6):
        here.clock.advance(DAY)
        assert await here.texts("tea") == ["Anna likes tea."]
    assert await here.texts("what does Anna like") == ["Anna likes tea.", "Anna likes rum."]
    here.clock.advance(300 * DAY)
    assert await here.texts("what does Anna like") == ["Anna likes rum.", "Anna likes tea."], "uses fade"
    await here.save("Anna likes green tea with milk, and never with too much sugar.")
    for _ in range(6):
        here.clock.advance(DAY)
        await here.texts("rum")
    assert (await here.texts("green tea milk"))[0].startswith("Anna likes green"), "what fits better comes first"


async def test_secrets_and_what_does_not_show_stay_out(here: World) -> None:
    saved = await here.save("The key is sk-abcdefghijklmnopqrstuvwx,\n\n  pass sesame-open\u202e\x1b[0m \ud800.")
    assert saved.text == "The key is [secret],\npass [secret]\\u202e\\x1b[0m \\ud800."
    assert await here.texts("key") == [saved.text]
    tagged = await here.save("A token is in use.", tags=["sesame-open", "\u200b", "a\nb"])
    (found,) = [one for one in await here.search("token use") if one.id == tagged.id]
    assert found.tags == ("[secret]", "\\u200b", "a b")


async def test_what_cannot_be_kept_says_why(here: World) -> None:
    with pytest.raises(ToolFailure, match="text: says nothing"):
        await here.save(" \n\t ")
    with pytest.raises(ToolFailure, match=f"text: has more than {MAX_FACT_LENGTH} characters"):
        await here.save("\u200b" * (MAX_FACT_LENGTH // 2))
    for number in range(50):
        await here.save(f"Fact number {number}.")
    with pytest.raises(ToolFailure, match="there are 50 facts already: forget some"):
        await here.save("One too many.")
    assert (await here.save("Fact number 7.")).known
    assert not (await here.save("One too many.", principal="bob")).known


async def test_a_first_message_recalls_what_it_is_about_and_nothing_else(here: World) -> None:
    for fact in ("Ada's dog Rex is afraid of thunder.", "The staging server is called bremen.", "用户对花生过敏。"):
        await here.save(fact)
    for number in range(30):
        await here.save(f"On day {number} the weather was noted as number {number * 7}.")

    async def recalled(message: str) -> list[str]:
        found = await here.memory.recall(message, principal="ada", session_id="ses_2", limit=3)
        return [one.text for one in found]

    assert await recalled("My dog is ill, what can I do?") == ["Ada's dog Rex is afraid of thunder."]
    assert await recalled("restart bremen please") == ["The staging server is called bremen."]
    assert await recalled("花生酱可以吃吗") == ["用户对花生过敏。"]
    assert await recalled("hello, how are you?") == []
    assert await recalled("please write a function that is called parse and reads a long list of things") == []
    assert await recalled("") == []


async def test_what_is_kept_before_a_compaction_is_counted_and_bounded(here: World) -> None:
    await here.save("The port is 8400.")
    long = "Long " * MAX_KEPT_LENGTH
    texts = ["The port is 8400.", "The host is bremen.", " ", long]
    assert await here.memory.save_facts(texts, principal="ada", session_id="s") == 2
    (found,) = await here.search("host bremen", limit=1)
    assert found.author == "agent (compaction)"
    (cut,) = await here.search("long", limit=1)
    assert len(cut.text) <= MAX_KEPT_LENGTH
    assert cut.text.endswith("[...]")
    assert (
        await here.memory.save_facts([f"Item {n}." for n in range(MAX_KEPT + 20)], principal="ada", session_id="s")
        == 47
    )


async def test_a_backup_remembers_as_well(here: World, tmp_path: Path) -> None:
    await here.save("Grandma's dentist is Dr. Weber in Mill Lane.")
    session = await here.begin()
    await here.talk(session, "Where is the key?", "Below the walnut tree.")
    await here.search("dentist")
    (tmp_path / "copy").mkdir()
    Backup(here.database.path, tmp_path / "copy" / "agent.db").make()
    copy = Database(tmp_path / "copy" / "agent.db", MIGRATIONS)
    copy.open()
    memory = MemoryService(copy, here.home, here.clock)
    found = [one.text for one in (await memory.search("dentist walnut", principal="ada")).found]
    assert sorted(found) == ["Below the walnut tree.", "Grandma's dentist is Dr. Weber in Mill Lane."]
    await memory.save("The key was lost.", principal="ada", session_id="s")
    assert [one.text for one in (await memory.search("lost", principal="ada")).found] == ["The key was lost."]
    await memory.close()
    copy.close()
