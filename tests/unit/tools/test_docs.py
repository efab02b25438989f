"""docs/tools.md, docs/skills.md and docs/confinement.md, held to the code."""

from __future__ import annotations

import re
from pathlib import Path

from agent_runtime.sandbox import OUTPUT_LIMIT, Confinement, Limits
from agent_runtime.skills import wire
from agent_runtime.skills.loading import load
from agent_runtime.skills.plugin import collecting
from agent_runtime.skills.pool import MOST
from agent_runtime.tools import DEFAULT_TIMEOUT, LOCKED, builtin_tools, deadline
from agent_runtime.tools.bash import COMMAND_LIMIT, LONGEST
from agent_runtime.tools.files import TEXT_LIMIT
from agent_runtime.tools.finder import LARGEST, SKIPPED
from agent_runtime.tools.finder import LONGEST as LONGEST_LINE
from agent_runtime.tools.read import READ_LIMIT
from agent_runtime.tools.search import GLOB_LIMIT, GREP_LIMIT

DOCS = Path(__file__).parents[3] / "docs"
TOOLS, SKILLS, CONFINEMENT = ((DOCS / f"{name}.md").read_text() for name in ("tools", "skills", "confinement"))
ROWS = {row[1]: row[0] for row in re.finditer(r"^\| `(\w+)` \|.*$", TOOLS, re.MULTILINE)}


def test_every_tool_has_a_row_with_its_parameters() -> None:
    specs = [tool.spec for tool in builtin_tools(Confinement(None))]
    assert list(ROWS) == [spec.name for spec in specs]
    for spec in specs:
        parameters = ROWS[spec.name].split("|")[2]
        named = {name: bool(optional) for name, optional in re.findall(r"`(\w+)(\?)?`", parameters)}
        named = {name: optional for name, optional in named.items() if name not in ("lines", "bytes")}
        assert named == {name: name not in spec.parameters["required"] for name in spec.parameters["properties"]}


def test_the_bounds_are_those_of_the_code() -> None:
    assert f"{READ_LIMIT // 1024} KB an answer" in ROWS["read"]
    assert all(f"{TEXT_LIMIT // 2**20} MiB" in ROWS[name] for name in ("read", "write", "edit"))
    assert f"{GLOB_LIMIT} entries" in ROWS["glob"]
    assert f"{GREP_LIMIT} matches, {LONGEST_LINE} characters a line, files up to {LARGEST // 2**20} MiB" in ROWS["grep"]
    assert (
        f"{OUTPUT_LIMIT // 1024} KB of both streams, {COMMAND_LIMIT // 1024} KiB of command, {LONGEST:g} s"
        in ROWS["bash"]
    )
    assert f"`AGENT_TOOL_TIMEOUT` ({DEFAULT_TIMEOUT:g} s)" in TOOLS
    assert f"given up after {deadline.GRACE:g} s" in TOOLS
    assert " ".join(LOCKED) in TOOLS.replace("\n", " ")
    assert all(f"`{name}`" in TOOLS for name in SKIPPED)


def test_the_limits_of_a_box_are_those_of_the_code() -> None:
    limits = Limits()
    assert f"{limits.memory // 2**30} GiB of memory ({limits.memory * 4 // 2**30} GiB of address space)" in CONFINEMENT
    assert f"{limits.file_size // 2**20} MiB a file, {limits.open_files} open files" in CONFINEMENT
    assert f"{limits.cpu_seconds} s of processor" in CONFINEMENT
    assert f"{limits.processes} processes and threads" in CONFINEMENT
    assert f"in memory, {limits.tmp // 2**20} MiB each" in CONFINEMENT


def test_the_examples_are_skills(tmp_path: Path) -> None:
    """Loaded here as a worker loads them."""
    names: list[str] = []
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", SKILLS, re.DOTALL)):
        (tmp_path / f"example{number}.py").write_text(code)
        names += [one.name for one in load(tmp_path / f"example{number}.py")]
    assert names == ["word_count", "summarise"]
    assert {4: "four"}[MOST] in SKILLS
    assert wire.MESSAGE_LIMIT > OUTPUT_LIMIT


def test_the_example_of_a_tool_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TOOLS, re.DOTALL)
    names: dict[str, object] = {}
    with collecting():
        exec(code, names)  # noqa: S102
    assert "greet" in names
