"""docs/reference/tools.md, docs/how-to/skills.md and docs/explanation/confinement.md, held to the code."""

from __future__ import annotations

import re
from pathlib import Path

from agent_common.net import FetchLimits
from agent_runtime.sandbox import OUTPUT_LIMIT, SandboxLimits
from agent_runtime.sandbox.spec.spec import MIN_FILES
from agent_runtime.skills.dependencies import requirements_of
from agent_runtime.skills.sources.source import MAX_BYTES, MAX_FILES
from agent_runtime.skills.sources.versions import COPIES_FOLDER
from agent_runtime.skills.worker.loading import load_plugin
from agent_runtime.skills.worker.plugin import collect_skills
from agent_runtime.skills.workers import protocol
from agent_runtime.skills.workers.idle_workers import MAX_IDLE
from agent_runtime.skills.workers.pool import MAX_CRASHES, MAX_WORKERS
from agent_runtime.skills.workers.process import LINGER_SECONDS, LOAD_SECONDS
from agent_runtime.tools import DEFAULT_TIMEOUT, HUB_TOOL_NAMES, LOCKED_TOOL_NAMES, MESH_TOOL_NAMES, OTHER_TOOL_NAMES
from agent_runtime.tools.core import deadline
from agent_runtime.tools.files.search_worker import SKIPPED_FOLDERS
from agent_runtime.tools.web.fetch import FETCH_LIMIT
from scripts.tools import page as tools_page

DOCS = Path(__file__).parents[3] / "docs"
TOOLS, CONFINEMENT = ((DOCS / f"{name}.md").read_text() for name in ("reference/tools", "explanation/confinement"))
SKILLS = "\n".join((DOCS / kind / "skills.md").read_text() for kind in ("how-to", "reference"))
MADE = TOOLS.partition("<!-- end -->")[0]
ROWS = {row[1]: row[0] for row in re.finditer(r"^\| `(\w+)` \|.*$", MADE, re.MULTILINE)}


def test_the_table_is_the_one_that_the_tools_give() -> None:
    assert tools_page() == (DOCS / "reference/tools.md").read_text(), "run make docs"
    assert sorted(ROWS) == sorted((*LOCKED_TOOL_NAMES, *OTHER_TOOL_NAMES, *MESH_TOOL_NAMES, *HUB_TOOL_NAMES))


def test_the_page_says_what_the_code_does() -> None:
    read = f"{FetchLimits().body_bytes // 2**20} MiB read"
    assert f"{FETCH_LIMIT // 1024} KB an answer, {read}" in ROWS["web_fetch"]
    assert f"`AGENT_TOOL_TIMEOUT` ({DEFAULT_TIMEOUT:g} s)" in TOOLS
    assert f"given up after {deadline.CANCEL_GRACE:g} s" in TOOLS
    assert " ".join(LOCKED_TOOL_NAMES) in TOOLS.replace("\n", " ")
    assert all(f"`{name}`" in TOOLS for name in SKIPPED_FOLDERS)


def test_the_limits_of_a_box_are_those_of_the_code() -> None:
    limits = SandboxLimits()
    assert f"{limits.memory // 2**30} GiB of memory ({limits.memory * 4 // 2**30} GiB of address space)" in CONFINEMENT
    assert f"{limits.file_size // 2**20} MiB a file, {limits.open_files} open files" in CONFINEMENT
    assert f"{limits.cpu_seconds} s of processor" in CONFINEMENT
    assert f"{limits.processes} processes and threads" in CONFINEMENT
    assert f"`AGENT_SCRATCH_MB` ({limits.scratch // 2**20} MiB)" in CONFINEMENT
    assert f"`AGENT_WORKSPACE_MB` ({limits.workspace // 2**30} GiB)" in CONFINEMENT
    assert f"(at least {MIN_FILES})" in CONFINEMENT
    assert f"{limits.sessions} sessions of processes" in CONFINEMENT
    assert f"in memory, {limits.tmp // 2**20} MiB each" in CONFINEMENT


def test_the_examples_are_skills(tmp_path: Path) -> None:
    """Loaded here as a worker loads them."""
    names: list[str] = []
    examples = re.findall(r"```python\n(.*?)```", SKILLS, re.DOTALL)
    [depending] = [code for code in examples if "# /// script" in code]
    assert requirements_of(depending.encode(), "example.py") == ("python-slugify>=8",)
    compile(depending, "example.py", "exec")  # what it imports is not installed here
    examples.remove(depending)
    for number, code in enumerate(examples):
        (tmp_path / f"example{number}.py").write_text(code)
        names += [one.name for one in load_plugin(tmp_path / f"example{number}.py").skills]
    assert names == ["word_count", "your_tool", "summarise", "titles", "area"]
    assert {4: "four"}[MAX_WORKERS] in SKILLS
    assert {16: "sixteen"}[MAX_IDLE] in SKILLS
    assert {30.0: "half a minute"}[LINGER_SECONDS] in SKILLS
    assert {3: "three crashes in a row"}[MAX_CRASHES] in SKILLS
    assert f"import ({LOAD_SECONDS:g} s)" in SKILLS
    assert f"{MAX_FILES} files and {MAX_BYTES // 2**20} MiB" in SKILLS
    assert f"`{COPIES_FOLDER}/NAME`" in SKILLS
    assert protocol.MESSAGE_LIMIT > OUTPUT_LIMIT


def test_the_example_of_a_tool_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TOOLS, re.DOTALL)
    names: dict[str, object] = {}
    with collect_skills():
        exec(code, names)  # noqa: S102
    assert "greet" in names
