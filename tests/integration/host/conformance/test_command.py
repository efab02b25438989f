"""`agent-host conformance`, also against the example agent and listener of microagent."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_conformance import AGENT_RULES, LISTENER_RULES, Options
from agent_testing import LiveProcess
from tests.ports import free_port

from .bench import failed, skipped, try_agent
from .swift import run_swiftly

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
SEED = ROOT / "tests" / "e2e" / "mediation"
STUB = "import asyncio, sys; from agent_testing import StubAgent; asyncio.run(StubAgent(sys.argv[1]).run())"


class Judge(subprocess.Popen[str]):
    """The command as a process."""

    def __init__(self, *argv: str) -> None:
        super().__init__(
            [sys.executable, "-m", "agent_host", "conformance", *argv],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", "COLUMNS": "160", "PYTHONPATH": str(ROOT)},
        )

    def ended(self) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        try:
            output, errors = self.communicate(timeout=60)
        finally:
            self.kill()
        return self.returncode, output, errors

    def report(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        """Exit code, the state of each rule, and the whole."""
        code, output, errors = self.ended()
        assert output, errors
        report = json.loads(output)
        return code, {rule["id"]: rule["state"] for rule in report["rules"]}, report


def test_the_guides_agent_keeps_what_the_guide_promises() -> None:
    port = free_port()
    process = Judge("--agent", f"tcp://127.0.0.1:{port}", "--dialect", "loose", "--json", "--timeout", "30")
    with LiveProcess([sys.executable, "-c", DIALS, str(port), SEED / "seed_agent.py"]):
        code, states, report = process.report()
    assert code == 0, report
    assert {name for name, state in states.items() if state == "passed"} == {r.id for r in AGENT_RULES if r.loose}
    assert {rule["seen"] for rule in report["rules"] if rule["state"] == "skipped"} == {"not promised by the guide"}


DIALS = """
import pathlib, runpy, socket, sys, time
until = time.monotonic() + 20
while True:
    try:
        runpy.run_path(sys.argv[2])
        break
    except ConnectionRefusedError:
        assert time.monotonic() < until
        time.sleep(0.05)
"""


def test_the_guides_listener_keeps_what_the_guide_promises() -> None:
    port = free_port()
    with LiveProcess([sys.executable, "-u", SEED / "seed_listener.py", str(port)]) as listener:
        listener.wait_for_output("listening")
        url = f"tcp://127.0.0.1:{port}"
        code, states, report = Judge("--listener", url, "--dialect", "loose", "--json", "--timeout", "10").report()
        assert listener.wait(5) == 0
        assert "'request_id': 'req-001', 'ok': True" in listener.output()
    assert code == 0, report
    assert {name for name, state in states.items() if state == "passed"} == {r.id for r in LISTENER_RULES if r.loose}


def test_the_guides_agent_breaks_what_only_the_strict_dialect_asks_for() -> None:
    port = free_port()
    process = Judge("--agent", f"tcp://127.0.0.1:{port}", "--json", "--timeout", "1", "--only", "A03,A11,A60")
    with LiveProcess([sys.executable, "-c", DIALS, str(port), SEED / "seed_agent.py"]):
        code, states, _ = process.report()
    assert code == 1
    assert states == {"A01": "passed", "A03": "failed", "A11": "failed", "A60": "failed"}


def test_the_table_names_each_rule_and_what_was_seen(tmp_path: Path) -> None:
    url = f"unix:{tmp_path}/s"
    process = Judge("--agent", url, "--timeout", "30", "--only", "A10,A40")
    with LiveProcess([sys.executable, "-c", STUB, url], cwd=ROOT):
        code, output, errors = process.ended()
    assert (code, errors) == (0, "")
    assert re.search(r"A01\b.*2\.4.*passed", output)
    assert re.search(r"A10\b.*passed.*accepting", output)
    assert re.search(r"A40\b.*skipped.*key", output)
    assert "2 passed, 0 failed, 1 not applicable" in output


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "name either --agent URL or --listener URL"),
        (("--agent", "unix:/a", "--listener", "unix:/b"), "name either --agent URL or --listener URL"),
        (("--agent", "http://localhost"), "--agent: 'http://localhost' must be like tcp://"),
        (("--listener", "tcp://127.0.0.1"), "--listener: must name a host and a port"),
        (("--agent", "tcp://127.0.0.1:0", "--dialect", "odd"), "--dialect: must be strict or loose"),
        (("--agent", "tcp://127.0.0.1:0", "--key-file", "/nowhere"), "--key-file: cannot read /nowhere"),
        (("--agent", "tcp://127.0.0.1:0", "--wait", "1"), "no agent has dialed tcp://127.0.0.1:"),
        (("--listener", "unix:/tmp/nobody-is-here", "--wait", "1"), "nothing listens at unix:/tmp/nobody-is-here"),
    ],
)
def test_what_cannot_be_tested_says_why(argv: tuple[str, ...], said: str) -> None:
    code, output, errors = Judge(*argv).ended()
    assert (code, output) == (1, "")
    assert said in errors


def test_an_agent_without_the_extensions_is_not_held_to_them(tmp_path: Path) -> None:
    only = ["A06", "A10", "A14", "A42", "A53", "A62"]
    options = Options(timeout=3, wait=10, slow="sleep:1")
    without: dict[str, Any] = {"extensions": False, "key": None, "constraints": None}  # a key needs the greeting
    findings = run_swiftly(try_agent(tmp_path / "s", options=options, only=only, **without))
    assert failed(findings) == set()
    assert skipped(findings) == {"A06", "A14", "A42", "A53"}


def test_a_loose_agent_is_held_to_what_the_guide_promises(tmp_path: Path) -> None:
    options = Options(dialect="loose", timeout=3, wait=10)
    findings = run_swiftly(try_agent(tmp_path / "s", options=options, dialect="loose"))
    assert failed(findings) == set()
    assert {one.id for one in findings if one.state == "passed"} == {rule.id for rule in AGENT_RULES if rule.loose}


async def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "protocols" / "conformance.md").read_text("utf-8")
    (program,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def findings(" in one)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/protocols/conformance.md", "exec"), names)  # noqa: S102
    assert await names["findings"](f"{tmp_path}/s") == []


def test_every_option_is_on_the_page() -> None:
    page = (ROOT / "docs" / "protocols" / "conformance.md").read_text("utf-8")
    _, output, _ = Judge("--help").ended()
    for option in set(re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE)) - {"--help"}:
        assert option in page, option


def test_a_command_can_hand_in_the_work(tmp_path: Path) -> None:
    process_of_listener = [sys.executable, "-c", LISTENS, str(tmp_path)]
    with LiveProcess(process_of_listener, cwd=ROOT) as listener:
        listener.wait_for_output("listening")
        drive = f'printf "%s" "$WORK_CONTENT" > {tmp_path}/new.$$ && mv {tmp_path}/new.$$ {tmp_path}/work.$$'
        argv = (
            "--listener",
            f"unix:{tmp_path}/s",
            "--drive",
            drive,
            "--json",
            "--timeout",
            "60",
            "--only",
            "L04,L09,L17",
        )
        code, states, report = Judge(*argv).report()
    assert code == 0, report
    assert states == {"L01": "passed", "L04": "passed", "L09": "skipped", "L17": "passed"}


LISTENS = """
import asyncio, pathlib, sys
from agent_testing import StubListener
async def main(folder):
    async with StubListener(f"unix:{folder}/s") as listener:
        print("listening", flush=True)
        while True:
            await asyncio.sleep(0.02)
            for work in folder.glob("work.*"):
                listener.submit(work.read_text())
                work.unlink()
asyncio.run(main(pathlib.Path(sys.argv[1])))
"""
