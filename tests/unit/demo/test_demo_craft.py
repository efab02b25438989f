"""The demo model gives itself a tool. What tools answer is recorded; the code it writes is loaded and run."""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from csv import DictReader
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent_host.proxy import DemoMove
from agent_runtime.skills.validation.declarations import check_declaration
from agent_runtime.skills.worker.loading import load_plugin
from examples.demo.model import play
from examples.demo.model.craft import NAME, median_wanted

SALES = Path(__file__).parents[3] / "examples/sales"
BRIEF = (SALES / "brief.md").read_text()
HEAD = "order_id,date,region,product,units,unit_price\n1,2026-01-01,N,Pen,1,2\n"
TASK = "Read brief.md in your workspace and do what it asks, with code that reads sales.csv."
TOOLS = ("read", "write", "glob", "bash", "create_skill")
NO_AMOUNT = "test: median_order failed: median_order.py line 22 in median_order: KeyError: 'amount'"
MEDIANS = {"N": 6.0, "S|W": 2.5}

Answer = Callable[[dict[str, Any]], Any]


class Failed(Exception):
    """The tool answers with an error."""


class Turn:
    """A runtime reduced to this: it hands on calls and results, and a tool that was made joins at the next step."""

    def __init__(self, *tools: str, brief: str = BRIEF, head: str = HEAD, forced_after: int = 99) -> None:
        self.tools, self.head, self.brief, self.forced_after = [*(tools or TOOLS)], head, brief, forced_after
        self.trials: list[Any] = [NO_AMOUNT, None]
        """What becomes of each version: why it is refused, or none."""
        self.medians: Any = MEDIANS
        self.report: dict[str, Any] = {"content": "# Report\n"}
        self.made: list[DemoMove] = []

    def run(self, text: str = TASK) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": text}]
        while True:
            offered = [{"type": "function", "function": {"name": name}} for name in self.tools]
            choice = "none" if len(self.made) >= self.forced_after else "auto"
            move = play({"model": "demo", "messages": messages, "tools": offered, "tool_choice": choice})
            assert move is not None
            if move.tool is None:
                return json.loads(move.text)["result"]
            self.made.append(move)
            function = {"name": move.tool, "arguments": json.dumps(move.arguments)}
            call = {"id": f"c{len(self.made)}", "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": move.text, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(self._envelope(move))},
            ]

    def _envelope(self, move: DemoMove) -> dict[str, Any]:
        try:
            return {"type": "output", "data": getattr(self, f"_{move.tool}")(move.arguments), "metadata": {}}
        except Failed as failed:
            return {"type": "error", "error_text": str(failed), "metadata": {}}

    def _glob(self, _: Any) -> Any:
        return {"entries": ["brief.md", "sales.csv"]}

    def _read(self, arguments: Any) -> Any:
        return {"content": self.brief} if arguments["path"] == "brief.md" else self.report

    def _write(self, _: Any) -> Any:
        return {"bytes": 1}

    def _bash(self, arguments: Any) -> Any:
        out = self.head if arguments["command"].startswith("head") else '{"orders": 2, "total": 8.0}'
        return {"stdout": out, "stderr": "", "exit_code": 0, "timed_out": False}

    def _create_skill(self, arguments: Any) -> Any:
        if (why := self.trials.pop(0)) is not None:
            raise Failed(why)
        self.tools.append(arguments["name"])
        return {"name": arguments["name"], "file": "median_order.py", "version": 1, "skills": [], "test": {}}

    def _median_order(self, _: Any) -> Any:
        if isinstance(self.medians, str):
            raise Failed(self.medians)
        return self.medians

    def steps(self) -> list[str]:
        return [str(move.tool) for move in self.made]


BEFORE = ["glob", "read", "bash", "write", "bash"]
AFTER = ["read", "write"]


def test_a_wrong_version_is_mended_and_used_in_the_same_turn() -> None:
    turn = Turn()
    result = turn.run()
    assert turn.steps() == [*BEFORE, "create_skill", "create_skill", NAME, *AFTER]
    first, second = (move for move in turn.made if move.tool == "create_skill")
    assert first.arguments["test"] == {"arguments": {"path": "sales.csv", "by": "region"}}
    assert second.arguments["code"] != first.arguments["code"]
    assert second.text == "[demo model] There is no column amount (line 22): it is units * unit_price. I mend it."
    called, *_, added = turn.made[7:]
    assert called.arguments == {"path": "sales.csv", "by": "region"}
    table = "| region | median |\n|---|---:|\n| N | 6.00 |\n| S\\|W | 2.50 |\n"
    assert added.arguments == {"path": "report.md", "content": f"# Report\n\n## Median order by region\n\n{table}"}
    assert result["median_by_region"] == MEDIANS
    assert (result["orders"], result["report"]) == (2, "report.md")


def test_a_tool_of_an_earlier_turn_is_used_as_it_is() -> None:
    turn = Turn(*TOOLS, NAME)
    assert turn.run()["median_by_region"] == MEDIANS
    assert turn.steps() == [*BEFORE, NAME, *AFTER]
    without = Turn("read", "write", "glob", "bash", NAME)
    assert without.run()["median_by_region"] == MEDIANS, "also where no more tools can be made"


def test_a_version_that_passes_is_not_mended() -> None:
    turn = Turn()
    turn.trials = [None]
    assert turn.run()["median_by_region"] == MEDIANS
    assert turn.steps() == [*BEFORE, "create_skill", NAME, *AFTER]


def test_a_brief_without_medians_is_done_as_ever() -> None:
    turn = Turn(brief="# Brief")
    assert set(turn.run()) == {"orders", "total", "report", "note"}
    assert turn.steps() == [*BEFORE, "read"]


@pytest.mark.parametrize(
    ("change", "steps", "why"),
    [
        ({"tools": ["read", "write", "glob", "bash"]}, ["read"], "there is no tool 'create_skill' on offer"),
        ({"trials": ["denied"]}, ["create_skill", "read"], "denied"),
        ({"trials": [NO_AMOUNT, "still wrong"]}, ["create_skill", "create_skill", "read"], "still wrong"),
        ({"head": "a,b\n1,2\n"}, ["create_skill", "read"], NO_AMOUNT),
        ({"head": ""}, ["create_skill", "read"], NO_AMOUNT),
        ({"medians": "it died"}, ["create_skill", "create_skill", NAME, "read"], "it died"),
        ({"medians": {"N": "6"}}, ["create_skill", "create_skill", NAME, "read"], "the tool gave no amounts"),
        (
            {"report": {"content": "#", "next": {"offset": 2}}},
            ["create_skill", "create_skill", NAME, "read"],
            "the report is too long to be read whole",
        ),
    ],
)
def test_what_cannot_be_had_is_left_out_and_said(change: dict[str, Any], steps: list[str], why: str) -> None:
    turn = Turn()
    vars(turn).update(change)
    result = turn.run()
    assert turn.steps() == [*BEFORE, *steps]
    assert result["left_out"] == f"median order by region: {why}"
    assert (result["orders"], result["report"]) == (2, "report.md")


def test_when_calls_are_no_longer_allowed_it_tells_how_far_it_came() -> None:
    result = Turn(forced_after=6).run()
    assert "no further tool calls were allowed" in result["error"]


@pytest.mark.parametrize(
    ("brief", "by"),
    [
        (BRIEF, "region"),
        ("the Median order\nby product", "product"),
        ("the median. Sum by region", None),
        ("medians by region", None),
        ("", None),
    ],
)
def test_which_medians_are_wanted(brief: str, by: str | None) -> None:
    assert median_wanted(brief) == by


# ---------------------------------------------------------------- the code it writes


@pytest.fixture
def versions() -> list[str]:
    turn = Turn(head=(SALES / "sales.csv").read_text()[:200])
    turn.run()
    return [move.arguments["code"] for move in turn.made if move.tool == "create_skill"]


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "median_order.py"
    sys.modules.pop("median_order", None)


def test_the_first_version_makes_the_mistake_that_it_mends(versions: list[str], plugin: Path) -> None:
    plugin.write_text(versions[0])
    (skill,) = load_plugin(plugin).skills
    with pytest.raises(KeyError, match="amount"):
        skill.function(path="sales.csv", by="region", workspace=SALES)


def test_the_second_version_is_right(versions: list[str], plugin: Path) -> None:
    plugin.write_text(versions[1])
    (skill,) = load_plugin(plugin).skills
    declared = check_declaration(skill.describe())
    assert (declared.spec.name, declared.spec.read_only) == (NAME, True)
    assert list(declared.spec.parameters["properties"]) == ["path", "by"]
    assert declared.spec.parameters["properties"]["path"]["description"] == "The CSV file, relative to the workspace"
    amounts: defaultdict[str, list[Decimal]] = defaultdict(list)
    for row in DictReader((SALES / "sales.csv").read_text().splitlines()):
        amounts[row["region"] or "unknown"].append(int(row["units"]) * Decimal(row["unit_price"]))
    found = skill.function(path="sales.csv", by="region", workspace=SALES)
    assert found == {
        name: pytest.approx(float(statistics.median(values)), abs=0.005) for name, values in amounts.items()
    }
    assert "unknown" in found
