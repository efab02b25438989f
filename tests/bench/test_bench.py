"""The bench itself works; how fast anything is, no test says."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_host.hub import HubLimits
from agent_runtime.context import View
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.sessions import history, listing
from agent_runtime.store import Database
from tests.bench.beside_ag2 import beside
from tests.bench.client import Client
from tests.bench.counting import counting
from tests.bench.held import holding
from tests.bench.hops import COUNTS, FLOWS, hops
from tests.bench.mediated import idle_agents, reconnects, round_trips
from tests.bench.network import talking
from tests.bench.recalled import recalling
from tests.bench.report import Round, lines, table
from tests.bench.rows import BARS, COLD_START, GROWTH, ROWS
from tests.bench.saves import saving
from tests.bench.stored import Contents, fill_floor, fill_ours
from tests.bench.targets import FLOOR, Live, provider, running
from tests.bench.views import reading_back
from tests.bench.wire import calling
from tests.unit.host.postgresql import has_postgresql


def test_ratios_are_taken_within_a_round_and_bars_are_judged_by_them() -> None:
    rounds = [
        Round({COLD_START: 100, "tokens/s": 10, "tool round in a box, ms": 3}, {COLD_START: 100, "tokens/s": 100}),
        Round({COLD_START: 500, "tokens/s": 60, "tool round in a box, ms": 1}, {COLD_START: 200, "tokens/s": 100}),
        Round({COLD_START: 300, "tokens/s": 40, "tool round in a box, ms": 2}, {COLD_START: 300, "tokens/s": 100}),
    ]
    cold, tokens, tool = lines(rounds)
    assert (cold.ours, cold.floor, cold.ratio, cold.passed) == (300, 200, 1.0, True)
    assert (tokens.ratio, tokens.passed) == (0.4, False)
    assert (tool.ours, tool.floor, tool.ratio, tool.passed) == (2, None, None, None)
    text = table([cold, tokens, tool])
    assert "ok" in text
    assert "MISSED" in text


def test_growth_is_what_we_spend_above_the_floor() -> None:
    early, late = "CPU at turn 10, ms", "CPU at turn 200, ms"
    grown = lines([Round({early: 3, late: 5}, {early: 1, late: 2})])[-1]
    assert (grown.metric, grown.ours, grown.passed) == (GROWTH, 1.5, True)
    lost = lines([Round({early: 1, late: 5}, {early: 1, late: 2})])[-1]
    assert lost.passed is False
    under = lines([Round({early: 2, late: 2}, {early: 1, late: 3})])[-1]
    assert (under.ours, under.passed) == (0, True)


def test_every_bar_belongs_to_a_metric() -> None:
    metrics = {COLD_START, GROWTH}.union(*(row.reduce for row in ROWS))
    assert set(BARS) <= metrics


class _Deaf(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass


async def test_a_mark_may_come_in_pieces() -> None:
    client = Client("nowhere")
    client.connection_made(_Deaf())
    exchange = asyncio.create_task(client.exchange("GET", "/", mark=b"word ", times=3, leave=True))
    await asyncio.sleep(0)
    for piece in (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nwo", b"rd wor", b"d w"):
        client.data_received(piece)
    assert not client.heard.is_set()
    client.data_received(b"ord and more")
    heard = await exchange
    assert heard.body == b"word word word and more"
    assert heard.first == heard.wall > 0


async def test_our_stored_sessions_are_what_the_runtime_itself_would_have_stored(tmp_path: Path) -> None:
    await asyncio.to_thread(fill_ours, tmp_path, Contents(sessions=5, long=2, messages=6))
    database = Database(tmp_path / "agent.db", MIGRATIONS)
    database.open()
    try:
        listed = await database.read(lambda connection: listing.sessions(connection, "operator", limit=10))
        assert len(listed.sessions) == 5
        long = await database.read(lambda connection: history.session_of_alias(connection, "operator", "long-1"))
        assert long in {session.id for session in listed.sessions}
        view = await database.read(lambda connection: View.from_history("", history.messages(connection, long or "")))
        assert [json.loads(message)["content"][:2] for message in view.messages[1:]] == [f"{n} " for n in range(6)]
    finally:
        database.close()


@pytest.mark.slow
def test_the_floor_goes_on_where_it_was_and_lists_what_is_stored(tmp_path: Path) -> None:
    contents = Contents(sessions=70, long=1, messages=6)
    fill_floor(tmp_path, contents)
    with provider() as url, running(FLOOR, url, contents) as live:
        found = asyncio.run(_ask_the_floor(live, url))
    assert found == (6 + 2, 50, 20)


async def _ask_the_floor(live: Live, url: str) -> tuple[int, int, int]:
    """Messages that the model was sent, and sessions on two pages."""
    client, control = await Client.connect(live.url), await Client.connect(url.removesuffix("/v1"))
    await client.post("/chat", {"session_id": next(live.unread), "message": "echo"})
    asked = (await control.get("/_requests")).json()
    first = (await client.get("/sessions")).json()
    second = (await client.get(f"/sessions?after={first['next']}")).json()
    for one in (client, control):
        one.close()
    await asyncio.sleep(0)
    return len(asked[0]["body"]["messages"]), len(first["sessions"]), len(second["sessions"])


async def test_saving_is_measured_per_chunk() -> None:
    samples = await saving(Live("ours", "", 0, 0, 0), "", chunks=50)
    assert all(0 < value < 10_000 for values in samples.values() for value in values)


@pytest.mark.slow
async def test_calls_are_measured_over_both_ways() -> None:
    samples = await calling(Live("ours", "", 0, 0, 0), "", calls=50)
    assert all(len(values) == 1 and 0 < values[0] < 100_000 for values in samples.values())


async def test_views_are_read_back_with_and_without_compactions() -> None:
    samples = await reading_back(Live("ours", "", 0, 0, 0), "", turns=40)
    assert samples["share"][0] < 1
    assert all(value > 0 for values in samples.values() for value in values)


@pytest.mark.slow
async def test_counting_is_measured_per_kib_and_beside_tiktoken() -> None:
    samples = await counting(Live("ours", "", 0, 0, 0), "", rounds=2)
    assert all(value > 0 for values in samples.values() for value in values)
    assert min(samples["estimate"]) < min(samples["alone"])


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_bench_measures_live_processes(tmp_path: Path) -> None:
    rows = [part for name in ("cold", "turn", "first") for part in ("--only", name)]
    command = [sys.executable, "-m", "tests.bench", "--against-itself", "--quick", "--json", tmp_path / "found.json"]
    done = subprocess.run([*command, *rows], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "turn p50, ms" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert all(line["ours"] > 0 and line["floor"] > 0 for line in found["lines"])


@pytest.mark.slow
async def test_holding_is_measured_in_each_way() -> None:
    samples = await holding(Live("ours", "", 0, 0, 0), "", commands=2)
    assert [len(samples[kind]) for kind in ("confined", "bubblewrap", "bare", "ratio")] == [2, 2, 2, 1]
    assert all(value > 0 for values in samples.values() for value in values)


async def test_searches_are_measured_by_kind() -> None:
    samples = await recalling(Live("ours", "", 0, 0, 0), "", count=300)
    kinds = {"pair", "frequent", "rare", "long", "absent", "question"}
    assert set(samples) == kinds | {"all", "plain"}
    assert len(samples["all"]) == sum(len(samples[kind]) for kind in kinds)
    assert all(0 < value < 10_000 for value in samples["all"])


@pytest.mark.slow
async def test_the_channel_is_measured_beside_the_echo() -> None:
    samples = await round_trips(Live("ours", "", 0, 0, 0), "", trips=40, slices=1)
    assert all(len(values) == 1 and values[0] > 0 for values in samples.values())


@pytest.mark.slow
async def test_idle_agents_and_reconnects_are_measured() -> None:
    live = Live("ours", "", 0, 0, 0)
    assert len((await idle_agents(live, "", agents=20))["memory"]) == 1
    assert all(0 < taken < 10_000 for taken in (await reconnects(live, "", breaks=2))["reconnect"])


@pytest.mark.slow
async def test_what_a_request_runs_through_is_counted_on_live_servers() -> None:
    with provider() as url:
        found = await hops(Live("ours", "", 0, 0.0, 0.0), url)
    assert found.keys() == {f"{flow} {count}" for flow in FLOWS for count in COUNTS}
    for flow in FLOWS:
        files, functions, switches = (found[f"{flow} {count}"][0] for count in COUNTS)
        assert 5 < files < functions < switches, flow


async def test_the_hub_is_measured() -> None:
    samples = await talking(Live("ours", "", 0, 0, 0), "", envelopes=40, pairs=2, opened=20, rounds=1)
    shared = {"postgresql", "postgresql flat"} if has_postgresql() else set[str]()
    stored = {"sqlite", "sqlite flat", "sqlite open", "restart"}
    assert {"memory", "memory flat", "open", "idle", *stored, *shared} == set(samples)
    assert all(len(found) == 1 for found in samples.values())
    assert samples["restart"][0] < 2 * HubLimits().snapshot_every  # a tail for the session, and one for its sender


@pytest.mark.slow
async def test_the_hub_is_measured_alone_where_ag2_does_not_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    samples = await beside(Live("ours", "", 0, 0, 0), "", envelopes=40, rounds=1)
    (row,) = (one for one in ROWS if one.name == "ag2")
    assert set(samples) == {"ours", "ours flat"}
    assert all(name.startswith("hub by its clients") for name in row.figures(samples))
    assert all(name.startswith("AG2's hub") for name in row.missing(samples))
    assert len(row.figures(samples)) == len(row.missing(samples)) == 2
