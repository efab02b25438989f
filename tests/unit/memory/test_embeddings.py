"""The second ranker: what it adds to words, and what it costs when it is not there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import ModelCard
from agent_runtime.errors import MeshUnavailable
from agent_runtime.memory import EmbeddingSearch
from agent_runtime.memory.index.vectors import Vector
from agent_runtime.memory.search import embeddings as meaning
from agent_testing import ManualClock

from .world import World, world

CONCEPTS = (
    ("dog", "pet", "rex"),
    ("tea", "drink", "beverage"),
    ("car", "vehicle", "volvo"),
    ("town", "lives", "moved"),
)


@dataclass
class Embedder:
    """Fills ports.Mesh. Knows a few words by what they mean."""

    fails: bool = False
    hangs: bool = False
    poison: str = "never said"
    """A text with this in it is refused."""
    more: int = 0
    """Dimensions beside those that mean something."""
    asked: list[list[str]] = field(default_factory=list[list[str]])

    async def models(self) -> Sequence[ModelCard]:
        return ()

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], meter: object = None, /, **options: Any
    ) -> dict[str, Any]:
        raise NotImplementedError

    async def embed(
        self, texts: Sequence[str], meter: object = None, /, *, model: str | None = None
    ) -> list[list[float]]:
        self.asked.append(list(texts))
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails or any(self.poison in text for text in texts):
            raise MeshUnavailable("the mesh refused: 400")
        return [self.vector(text) for text in texts]

    async def request(self, path: str, body: Any, meter: object = None, /) -> dict[str, Any]:
        raise NotImplementedError

    def vector(self, text: str) -> list[float]:
        found = [float(any(word in text.lower() for word in concept)) for concept in CONCEPTS]
        return [*found, 0.1, *[0.0] * self.more]


@dataclass
class Meant:
    here: World
    meaning: EmbeddingSearch
    embedder: Embedder
    clock: ManualClock

    async def catch_up(self) -> None:
        while await self.meaning._step():
            pass

    async def with_vectors(self) -> list[int]:
        return [row[0] for row in await self.here.rows("SELECT entry FROM memory_vectors ORDER BY entry")]


@pytest.fixture
async def meant(tmp_path: Path) -> AsyncIterator[Meant]:
    clock, embedder = ManualClock(), Embedder()
    async with world(tmp_path, clock) as here:
        there = EmbeddingSearch(here.database, embedder, "model-a", clock)
        here.memory._embeddings = there
        yield Meant(here, there, embedder, clock)
        await there.close()


async def test_what_means_the_same_goes_before_what_has_the_same_words(meant: Meant) -> None:
    here = meant.here
    for text in ("Ada's beverage at breakfast is strong.", "Ada's car at breakfast is strong.", "Ada's car is strong."):
        await here.save(text)
    assert (await here.texts("what does Ada drink at breakfast"))[0] == "Ada's car at breakfast is strong."
    await meant.catch_up()
    assert (await here.texts("what does Ada drink at breakfast"))[0] == "Ada's beverage at breakfast is strong."
    assert await here.texts("zebra") == [], "without sqlite-vec it only compares what the words have found"


async def test_texts_are_embedded_in_batches_and_once(meant: Meant) -> None:
    for number in range(70):
        await meant.here.save(f"Fact {number} about tea.")
    meant.here.file("notes.md", "A passage about the dog.")
    await meant.here.search("tea")
    meant.embedder.asked.clear()
    await meant.catch_up()
    assert [len(texts) for texts in meant.embedder.asked] == [32, 32, 7]
    assert len(await meant.with_vectors()) == 71
    await meant.here.search("tea")
    meant.embedder.asked.clear()
    await meant.catch_up()
    session = await meant.here.begin()
    await meant.here.talk(session, "What about the dog?", "It is well.")
    await meant.here.search("tea")
    await meant.catch_up()
    assert meant.embedder.asked == [], "a query is asked for once, and what was said is not sent out"


async def test_a_dead_embedder_costs_one_search_a_moment_and_comes_back(meant: Meant) -> None:
    here, embedder = meant.here, meant.embedder
    await here.save("The dog is called Rex.")
    embedder.hangs = True
    began = time.monotonic()
    assert await here.texts("dog") == ["The dog is called Rex."]
    assert time.monotonic() - began >= meaning.QUERY_SECONDS
    for query in ("the dog", "Rex"):
        assert await here.texts(query) == ["The dog is called Rex."]
    assert len(embedder.asked) == 1, "it is left alone"
    embedder.hangs, embedder.fails = False, True
    for failures in range(2, 12):
        meant.clock.advance(meaning.BACKOFF.most)
        await here.texts(f"dog {failures}")
        assert len(embedder.asked) == failures
        await here.texts(f"dog again {failures}")
        assert len(embedder.asked) == failures
    embedder.fails = False
    await here.texts("dog for the first time")
    assert len(embedder.asked) == 11
    meant.clock.advance(meaning.BACKOFF.most)
    await here.texts("dog for the last time")
    await meant.catch_up()
    assert len(await meant.with_vectors()) == 1


async def test_it_works_by_itself_once_it_is_started(meant: Meant) -> None:
    meant.here.memory._embeddings = meant.meaning
    meant.meaning.start()
    await meant.here.save("The dog is called Rex.")
    async with asyncio.timeout(60):
        while not await meant.with_vectors():
            await asyncio.sleep(0.01)


async def test_a_text_that_cannot_be_embedded_holds_up_no_other(meant: Meant) -> None:
    meant.embedder.poison = "unspeakable"
    for number in range(40):
        await meant.here.save("An unspeakable thing." if number == 20 else f"Fact {number} about tea.")
    await meant.catch_up()
    assert len(await meant.with_vectors()) == 39
    await meant.here.save("One more about tea.")
    await meant.catch_up()
    assert len(await meant.with_vectors()) == 40


async def test_while_it_is_down_nothing_is_blamed(meant: Meant) -> None:
    meant.embedder.fails = True
    for number in range(5):
        await meant.here.save(f"Fact {number} about tea.")
    for _ in range(6):
        with pytest.raises(MeshUnavailable):
            await meant.catch_up()
        meant.clock.advance(meaning.BACKOFF.most)
    meant.embedder.fails = False
    await meant.catch_up()
    assert len(await meant.with_vectors()) == 5


async def test_another_model_begins_anew(meant: Meant) -> None:
    for number in range(5):
        await meant.here.save(f"Fact {number} about tea.")
    await meant.catch_up()
    meant.embedder.more = 8
    other = EmbeddingSearch(meant.here.database, meant.embedder, "model b", meant.clock)
    while await other._step():
        pass
    sizes = {len(row[0]) for row in await meant.here.rows("SELECT numbers FROM memory_vectors")}
    assert sizes == {len(CONCEPTS) + 1 + 8}
    meant.embedder.more = 16
    await meant.here.save("Another one about tea.")
    while await other._step():
        pass
    meant.clock.advance(60)
    while await other._step():
        pass
    sizes = {len(row[0]) for row in await meant.here.rows("SELECT numbers FROM memory_vectors")}
    assert sizes == {len(CONCEPTS) + 1 + 16}, "the same name, and another model behind it"
    assert len(await meant.with_vectors()) == 6


async def test_what_is_forgotten_has_no_vector(meant: Meant) -> None:
    saved = await meant.here.save("The dog is called Rex.")
    await meant.catch_up()
    await meant.here.memory.forget(saved.id, principal="ada")
    for table in ("memory_vectors", "memory_signs"):
        assert await meant.here.count(table) == 0


@pytest.mark.parametrize(
    "answer", [[], [[]], [[0.0, 0.0]], [["a"]], [[float("nan")]], None, [[1.0], [1.0]], [[1.0] * 9000]]
)
async def test_an_answer_that_is_none_is_a_failure(meant: Meant, answer: Any) -> None:
    async def embed(texts: Sequence[str], meter: object = None, /, *, model: str | None = None) -> Any:
        return answer

    embedder = Embedder()
    embedder.embed = embed
    assert await EmbeddingSearch(meant.here.database, embedder, "m", meant.clock).embed_query("dog") is None


@given(st.lists(st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-3), min_size=1, max_size=40))
def test_a_vector_is_like_itself_and_unlike_its_opposite(values: list[float]) -> None:
    vector, opposite = Vector.from_values(values), Vector.from_values([-value for value in values])
    assert vector.similarity(vector.numbers) == pytest.approx(1)
    assert vector.similarity(opposite.numbers) == pytest.approx(-1)
    assert len(vector.bits) == -(-len(values) // 8)


TEXT: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 30}
SCRIPT = """
import sqlite3, sys
from agent_runtime.memory.index import schema, vectors
from agent_runtime.memory.index.schema import Scope
from agent_runtime.memory.index.vectors import Vector
connection = sqlite3.connect(":memory:", isolation_level=None)
connection.row_factory = sqlite3.Row
for migration in schema.MIGRATIONS:
    migration.apply(connection)
for scope in (1, 2, 3):
    connection.execute("INSERT INTO memory_scopes (id, kind, principal) VALUES (?, 'fact', ?)", (scope, str(scope)))
for entry in range(1, 301):
    scope = entry % 3 + 1
    connection.execute("INSERT INTO memory_entries VALUES (?, ?, '', 1, 0, 0, '', 0)", (entry, scope))
    angle = entry / 300
    values = [1 - angle, angle, 0.2, -0.3, (entry % 7) / 50, (entry % 5) / 50]
    vectors.store_vector(connection, entry, scope, Vector.from_values(values))
scopes = [Scope(2, "fact", 100, 100), Scope(3, "fact", 100, 100)]
near = vectors.nearest(connection, scopes, Vector.from_values([0.0, 1.0, 0.2, -0.3, 0.05, 0.04]), [], 5)
print(connection.execute("SELECT vec_version()").fetchone()[0], near)
assert len(near) == 5 and all(entry > 250 and entry % 3 + 1 != 1 for entry in near), near
try:
    connection.execute("SELECT load_extension('x')")
except sqlite3.OperationalError as error:
    assert "not authorized" in str(error), error
else:
    raise SystemExit("whoever can write SQL could load code")
"""


def test_with_sqlite_vec_all_of_a_scope_is_looked_through() -> None:
    """In a Python whose SQLite can load it: that of the system often can, where that of the tests cannot."""
    able = "import sqlite3, sys; sqlite3.connect(':memory:').enable_load_extension(True); print(*sys.version_info[:2])"
    root, packages = str(Path(__file__).parents[3]), next(path for path in sys.path if path.endswith("site-packages"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((root, packages))}
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            tried = subprocess.run([python, "-c", able], check=False, **TEXT)
            if tried.stdout.split() == [str(part) for part in sys.version_info[:2]]:
                done = subprocess.run([python, "-c", SCRIPT], check=False, **TEXT, env=environment)
                assert done.returncode == 0, done.stderr
                return
    pytest.skip("no Python here can load extensions into SQLite")
