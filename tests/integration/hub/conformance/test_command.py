"""`python -m agent_conformance hub`, against our hub as processes on a database and in memory."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_client.hub import HubClient, Passport, WebSocketLink
from agent_common.errors import StartError
from agent_conformance import HUB_RULES
from agent_conformance.hub_command import read_tokens
from agent_testing import LiveProcess
from tests.integration.host.live import PATIENCE, Host
from tests.ports import free_port
from tests.unit.host.postgresql import new_database, postgresql

from .faulty_hubs import faulty
from .hub_server import NAMES, TOKENS, serving
from .test_faults import FOUND_AT_ONCE, OTHERS

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "protocols" / "conformance.md"
SERVER = Path(__file__).parent / "hub_server.py"
PATIENT = ("--timeout", "60")


async def run(*argv: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "agent_conformance", "hub", *argv),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", "PYTHONPATH": str(ROOT), **(env or {})},
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, output.decode(), errors.decode()


def as_options(tokens: Mapping[str, str]) -> list[str]:
    return [f"--token={name}={token}" for name, token in tokens.items()]


async def states(url: str, tokens: Mapping[str, str], *argv: str) -> dict[str, str]:
    """What was seen of each rule that was not kept. All rules must have been tried."""
    code, output, errors = await run(url, *as_options(tokens), "--json", *PATIENT, *argv)
    assert output, errors
    rules: list[dict[str, Any]] = json.loads(output)["rules"]
    assert {one["id"] for one in rules} == {rule.id for rule in HUB_RULES}
    assert code == any(one["state"] == "failed" for one in rules)
    return {one["id"]: one["seen"] for one in rules if one["state"] != "passed"}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Generator[dict[str, str]]:
    """Settings of a host with such a database."""
    if request.param == "sqlite":
        yield {}
        return
    with postgresql() as server:
        yield {"MESH_DATABASE_URL": new_database(server, "conformance")}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_hub_of_a_host_keeps_every_rule(tmp_path: Path, database: dict[str, str]) -> None:
    with Host(tmp_path / "mesh", **database) as host:
        url = host.url.replace("http://", "ws://") + "/hub"
        tokens = {name: host.token(name) for name in NAMES}
        assert await states(url, tokens) == {}
        assert host.operator.get("/hub/agents").json()["agents"] == []
        assert await states(url, tokens) == {}  # what is left of the first run disturbs no other


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_hub_in_memory_keeps_every_rule() -> None:
    with LiveProcess([sys.executable, SERVER, "memory://"], {"PYTHONPATH": str(ROOT)}, timeout=PATIENCE) as process:
        url = process.wait_for_output(r"the hub listens on (\S+)")[1]
        assert await states(url, TOKENS) == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [*FOUND_AT_ONCE, "stops_at_bad_frames"])
async def test_a_fault_is_found_among_all_rules(fault: str) -> None:
    """What must come is waited for a shorter time here, so that others may fail beside the rule of the fault."""
    async with serving(faulty(fault)) as url:
        broken = await states(url, TOKENS, "--timeout", "5")
    assert {**FOUND_AT_ONCE, **OTHERS}[fault] in broken


@pytest.mark.slow
async def test_the_table_names_each_rule_and_what_was_seen() -> None:
    async with serving(faulty("ignores_keys")) as url:
        pair = {"HUB_TOKENS": " ".join(f"{name}={TOKENS[name]}" for name in NAMES[:2])}
        code, output, errors = await run(url, "--only", "H37,H51,H53", *PATIENT, env=pair)
    assert (code, errors) == (1, "")
    assert re.search(r"H01\b.*Frames.*passed", output)
    assert re.search(r"H37\b.*skipped.*it needs 3 agents: give --token NAME=TOKEN 3 times, not 2", output)
    assert re.search(r"H53\b.*failed.*the ids are", output)
    assert "2 passed, 1 failed, 1 not applicable" in output


@pytest.mark.slow
async def test_an_agent_that_is_in_use_is_left_alone() -> None:
    async with serving() as url:
        client = HubClient(WebSocketLink(url, token=TOKENS["alice"]), timeout=PATIENCE)
        agent = await client.register(None, Passport(name="alice"))
        code, output, errors = await run(url, f"--token=alice={TOKENS['alice']}", *PATIENT)
        assert [one["agent_id"] for one in await agent.list_agents()] == [agent.agent_id]
        await client.close()
    assert (code, output) == (1, "")
    assert "--token: alice is connected: give the tester agents of its own" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("ws://127.0.0.1:1/hub",), "--token: give one to three, each as NAME=TOKEN"),
        (("http://127.0.0.1:1/hub", "--token=a=b"), "must begin with ws:// or wss://"),
        (("ws://127.0.0.1:{port}/hub", "--token=a=b", "--wait=1"), "no hub within 1 s: ws://127.0.0.1:"),
        (("{url}", "--token=alice=wrong"), "--token: alice is not let in: ws://127.0.0.1:"),
    ],
)
async def test_what_cannot_be_tested_says_why(argv: tuple[str, ...], reason: str) -> None:
    async with serving() as url:
        code, output, errors = await run(*(one.format(port=free_port(), url=url) for one in argv))
    assert (code, output) == (1, "")
    assert reason in errors


def test_tokens_have_names() -> None:
    assert read_tokens(["alice=a=b", "bob=c"]) == {"alice": "a=b", "bob": "c"}
    for given, reason in ((["secret"], "must be NAME=TOKEN"), (["a=1", "a=2"], "a is given twice")):
        with pytest.raises(StartError, match=reason):
            read_tokens(given)


async def test_the_program_of_the_page_runs() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (program,) = (one for one in programs if "def hub_findings(" in one)
    names: dict[str, Any] = {}
    exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102
    async with serving() as url:
        needed = "it needs 2 agents: give --token NAME=TOKEN 2 times, not 1"
        assert f"H53 {needed}" in await names["hub_findings"](url, {"alice": TOKENS["alice"]})


@pytest.mark.slow
async def test_every_option_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    _, output, _ = await run("--help")
    for option in {*re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE)} - {"--help"}:
        assert option in page, option
