"""Rules about the project itself that no other tool checks, and the demo that a newcomer runs first."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from scripts import schemas

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "agent_common",
    "agent_client",
    "agent_runtime",
    "agent_host",
    "agent_testing",
    "agent_conformance",
    "frontends",
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CALLERS = SOURCES + sorted(path for folder in ("examples", "scripts") for path in (ROOT / folder).rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


class Facts:
    """What the rules ask of a file, found in one walk through it: to walk through all files takes seconds."""

    def __init__(self, path: Path) -> None:
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.functions: list[tuple[int, str, int]] = []
        """Length, name and line."""
        self.docstring_lines: set[int] = set()
        self.names: list[tuple[str, int]] = []
        """Name and line of each class, function, argument, variable and attribute that it defines."""
        self.calls_with_tuples: list[int] = []
        """Lines of calls such as `call(*(a, b))`."""
        self.loads: set[str] = set()
        """Names of the attributes that it reads."""
        for node in ast.walk(parse(path)):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self.imports.append(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.append(((node.end_lineno or node.lineno) - node.lineno + 1, node.name, node.lineno))
                self.names.append((node.name, node.lineno))
            case ast.ClassDef():
                self.names.append((node.name, node.lineno))
            case ast.arg():
                self.names.append((node.arg, node.lineno))
            case ast.Name(ctx=ast.Store()):
                self.names.append((node.id, node.lineno))
            case ast.Attribute(ctx=ast.Store()):
                self.names.append((node.attr, node.lineno))
            case ast.Attribute():
                self.loads.add(node.attr)
            case ast.Call() if any(
                isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple | ast.List) for one in node.args
            ):
                self.calls_with_tuples.append(node.lineno)
            case ast.Expr(value=ast.Constant(value=str())):
                self.docstring_lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case _:
                pass


facts_of = functools.cache(Facts)


# ---------------------------------------------------------------- public interfaces


def imports(path: Path) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Line, absolute module and imported names of every import of ours in a file."""
    package = path.relative_to(ROOT).parent.parts
    for node in facts_of(path).imports:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            yield node.lineno, module, tuple(alias.name for alias in node.names)
        else:
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split(".")), ()


@functools.cache
def public_names(package: Path) -> set[str]:
    """The names in the `__all__` of a package."""
    for node in parse(package / "__init__.py").body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return set(ast.literal_eval(value))
            case _:
                continue
    return set()


def breaches(path: Path) -> Iterator[str]:
    """Imports of names that are not in the public interface of another package."""
    for line, module, names in imports(path):
        if len(module) < 2 or module[0] not in PACKAGES or not (ROOT / module[0] / module[1]).is_dir():
            continue
        package = ROOT / module[0] / module[1]
        if path.is_relative_to(package):
            continue
        wanted = module[2:3] or names  # a file that `__all__` names is part of the interface
        hidden = ", ".join(name for name in wanted if name not in public_names(package))
        if hidden or len(module) > 3:
            yield f"{path.relative_to(ROOT)}:{line}: {hidden or module[-1]} is not public in {package.name}"


def test_packages_are_imported_by_their_public_interface() -> None:
    assert [breach for path in CALLERS for breach in breaches(path)] == []


# ---------------------------------------------------------------- errors


TREES = [path for path in SOURCES if path.name == "errors.py" and "├──" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in TREES])
def test_the_tree_of_errors_has_classes_of_the_module(name: str) -> None:
    module = importlib.import_module(name)
    branches = re.findall(r"(?m)^.*[├└]── (\w+)(?!.*\(in `)", module.__doc__ or "")  # `(in chat)`: elsewhere
    assert len(branches) > 2
    assert [branch for branch in branches if not hasattr(module, branch)] == []


RAISES = re.compile(r"[Rr]aises ((?:(?:, |,? and |,? or )?[A-Z]+[a-z]\w*)+)")


def test_what_a_docstring_says_is_raised_is_a_class() -> None:
    known = set(dir(builtins))
    for path in SOURCES:
        facts = facts_of(path)
        known |= facts.loads | {name for name, _ in facts.names}
        known |= {alias.name for one in facts.imports for alias in one.names}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for names in RAISES.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r"[A-Z]\w+", names)
        if name not in known
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Raises Busy.", ["Busy"]),
        ("It raises Busy, NotFound and Conflict.", ["Busy, NotFound and Conflict"]),
        ("Raises Busy, NotFound, or Conflict for a task.", ["Busy, NotFound, or Conflict"]),
        ("The operator raises AGENT_COPIES_MB.", []),
    ],
)
def test_each_class_that_a_docstring_says_is_raised_is_read(text: str, names: list[str]) -> None:
    assert RAISES.findall(text) == names


# ---------------------------------------------------------------- circles


def import_graph() -> dict[str, set[str]]:
    """Each of our modules, and those that it imports anywhere, under TYPE_CHECKING too."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES}
    known, graph = set(names.values()), dict[str, set[str]]()
    for path, name in names.items():
        found = {
            inner if (inner := ".".join((*module, imported))) in known else ".".join(module)
            for _, module, given in imports(path)
            for imported in given or ("",)
        }
        graph[name] = (found & known) - {name}
    return graph


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules each of which imports, by way of others, all others of its set."""
    while True:  # drop modules that import nothing which is left, or that nothing which is left imports
        imported = set[str]().union(*graph.values())
        kept = {name: found & graph.keys() for name, found in graph.items() if name in imported}
        kept = {name: found for name, found in kept.items() if found}
        if kept == graph:
            break
        graph = kept

    def reachable(name: str) -> set[str]:
        seen, left = set[str](), [name]
        while left:
            fresh = graph[left.pop()] - seen
            seen |= fresh
            left += fresh
        return seen

    reach = {name: reachable(name) for name in graph}
    return {frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]}


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert circles(import_graph()) == set()


def test_a_circle_is_found_among_modules_that_lead_to_it_and_away_from_it() -> None:
    graph = {"top": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "low"}, "low": set[str](), "x": {"y", "a"}, "y": {"x"}}
    assert circles(graph) == {frozenset("abc"), frozenset("xy")}


# ---------------------------------------------------------------- sizes


def functions() -> list[tuple[int, str]]:
    """Length and place of every function of all packages."""
    return [
        (length, f"{path.relative_to(ROOT)}:{line} {name}")
        for path in SOURCES
        for length, name, line in facts_of(path).functions
    ]


def code_lines(path: Path) -> int:
    """How many lines of the file have code: not blank, not a comment alone, and not of a docstring."""
    texts = facts_of(path).docstring_lines
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(number not in texts and line.strip() != "" and line.lstrip()[0] != "#" for number, line in lines)


def test_files_are_small() -> None:
    lengths = {str(path.relative_to(ROOT)): code_lines(path) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


def packed_values(module: ast.Module) -> Iterator[ast.Assign]:
    """Assignments of several values at once whose order does not matter: no value reads a target before it."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        if any(isinstance(one, ast.Starred) for one in node.value.elts):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and len(target.elts) == len(node.value.elts):
            names = [ast.unparse(one) for one in target.elts]
            reads = [
                {ast.unparse(part) for part in ast.walk(one) if isinstance(part, ast.expr)} for one in node.value.elts
            ]
            if not any(name in later for at, name in enumerate(names) for later in reads[at + 1 :]):
                yield node


def test_each_value_has_a_line_of_its_own() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)[:60]}"
        for path in CALLERS
        for node in packed_values(parse(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "count"),
    [("a, b = 1, 2", 1), ("self.a, b = x, y", 1), ("a, b = b, a", 0), ("a, b = c", 0), ("a, b = *c, *d", 0)],
)
def test_packed_values_are_those_whose_order_does_not_matter(text: str, count: int) -> None:
    assert len(list(packed_values(ast.parse(text)))) == count


def test_functions_fit_a_screen() -> None:
    lengths = sorted(functions())
    assert [where for lines, where in lengths if lines > 80] == []
    assert lengths[math.ceil(len(lengths) * 0.95) - 1][0] <= 40, lengths[-len(lengths) // 20 :]


# ---------------------------------------------------------------- what is committed


def tracked() -> Iterator[tuple[str, str]]:
    """Path and text of every file under version control."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_nothing_names_a_registry_or_a_machine() -> None:
    registries = ("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "--index-url", "--find-links")
    banned = re.compile("|".join(map(re.escape, (*registries, str(ROOT)))) + r"|/(home|Users)/[a-z]+/")
    this = str(Path(__file__).relative_to(ROOT))
    slips = [
        f"{name}:{number}: {found[0]}"
        for name, text in tracked()
        if name != this
        for number, line in enumerate(text.splitlines(), 1)
        if (found := banned.search(line))
    ]
    assert slips == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_requirement_is_hashed(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
    assert len(entries) > 1
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+ .*\\\n    --hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize(
    ("folder", "package"), [("client", "ai"), ("conformance", "@modelcontextprotocol/conformance")]
)
def test_every_package_of_node_is_hashed_and_comes_from_no_address(folder: str, package: str) -> None:
    lock = json.loads((ROOT / "tests" / folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert f"node_modules/{package}" in packages
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name


def test_schemas_on_disk_are_those_of_the_code() -> None:
    assert schemas.written() == schemas.rendered(), "run: make schemas"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_program_that_imports_a_package_sees_its_types(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


# ---------------------------------------------------------------- the demo


def start_demo(files: Path, folder: Path, **environment: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "examples.demo", "--files", str(files), "--folder", str(folder)]
    return subprocess.Popen(
        argv, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end_of(demo: subprocess.Popen[str]) -> tuple[Path, dict[str, Any], str]:
    """The report, the result and the progress of a demo that must succeed."""
    output, progress = demo.communicate(timeout=60)
    assert demo.returncode == 0, progress
    place, result = output.splitlines()[-2:]
    return Path(place.removeprefix("report: ")), json.loads(result), progress


def test_the_demo_reports_what_its_files_say(tmp_path: Path) -> None:
    files = shutil.copytree(ROOT / "examples" / "sales", tmp_path / "files")
    rows = [
        "order_id,date,region,product,units,unit_price",
        'A,2026-01-01,,"Tea, green",3,1.25',
        "B,2026-01-02,East,Mug,1,9",
    ]
    (files / "sales.csv").write_text("\n".join(rows) + "\n")
    report, result, progress = end_of(start_demo(files, tmp_path / "demo"))
    assert progress.splitlines()[-1] == "Chat with an agent in this folder: .venv/bin/agent up"
    assert result["status"] == "complete"
    assert result["result"]["total"] == 12.75
    assert result["result"]["by_region"] == {"East": 9.0, "unknown": 3.75}
    assert result["result"]["median_by_region"] == {"East": 9.0, "unknown": 3.75}
    assert "| Tea, green | 3.75 |" in report.read_text()
    assert "| East | 9.00 |" in report.read_text().partition("## Median order by region")[2]
    seen = [
        "create_skill",
        "KeyError: 'amount'",
        "create_skill",
        "a tool of its own: median_order",
        "median_order sales",
    ]
    assert re.search(".*".join(map(re.escape, seen)), " ".join(progress.split())), progress


@pytest.mark.slow
def test_the_demo_asks_the_endpoint_of_the_environment(tmp_path: Path) -> None:
    answer = '{"result": {"report": "report.md"}, "promote": {}}'
    with ScriptedProvider([Call("write", {"path": "report.md", "content": "as told"}), Say(answer)]) as provider:
        report, result, _ = end_of(start_demo(ROOT / "examples" / "sales", tmp_path, OPENAI_BASE_URL=provider.url))
        assert "sales.csv" in provider.wait_for(2)[0].last_user_text
    assert (report.read_text(), result["result"]) == ("as told", {"report": "report.md"})


@pytest.mark.slow
def test_a_demo_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    with ScriptedProvider([Hang()]) as provider:
        demo = start_demo(ROOT / "examples" / "sales", tmp_path, OPENAI_BASE_URL=provider.url)
        try:
            provider.wait_for(1, 30)  # two processes start first
            children = psutil.Process(demo.pid).children(recursive=True)
        finally:
            demo.send_signal(signal.SIGINT)
            _, progress = demo.communicate(timeout=60)
    assert demo.returncode == 128 + signal.SIGINT, progress
    assert len(children) >= 2  # the mesh and the runtime
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_the_exit_code_of_a_demo_is_its_signals_whatever_fails_on_the_way_out() -> None:
    program = """
import signal
from examples.demo.__main__ import ExitOnSignal

with ExitOnSignal():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.raise_signal(signal.SIGINT)
        raise ValueError("on the way out")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == 128 + signal.SIGTERM


def test_no_call_hides_its_arguments_in_a_tuple() -> None:
    """`call(*(a, b), *(c, d))` gets round the limit on arguments by position; name them instead."""
    found = [f"{path.relative_to(ROOT)}:{line}" for path in SOURCES for line in facts_of(path).calls_with_tuples]
    assert found == []


def long_unpacked_tuples(text: str) -> set[str]:
    """The variables that are given more values than a call may have arguments by position, and that a call unpacks."""
    unpacked = set(re.findall(r"[(,]\s*\*(\w+)\s*[,)]", text))
    return {
        name
        for node in (ast.walk(ast.parse(text)) if unpacked else ())
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and len(node.value.elts) > 7
        if all(isinstance(one, ast.Name | ast.Attribute) for one in node.value.elts)  # no command of words
        for name in map(ast.unparse, node.targets)
        if name in unpacked
    }


def test_no_call_hides_its_arguments_in_a_variable() -> None:
    found = {str(path.relative_to(ROOT)): long_unpacked_tuples(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("parts = a, b, c, d, e, f, g, h\ncall(*parts)", {"parts"}),
        ("parts = (a, b, c, d, e, f, g, h)\ncall(x, *parts, y=1)", {"parts"}),
        ("parts = a, b\ncall(*parts)", set()),
        ("parts = a, b, c, d, e, f, g, h\ncall(parts)", set()),
    ],
)
def test_a_variable_that_hides_arguments_is_found(text: str, names: set[str]) -> None:
    assert long_unpacked_tuples(text) == names


OWN_JSON = {
    "agent_host/agents/callers.py",
    "agent_host/agents/cards.py",
    "agent_host/fleet/machine/image.py",
    "agent_host/fleet/machine/processes/record.py",
    "agent_host/hub/agents.py",
    "agent_host/hub/store/memory.py",
    "agent_host/hub/store/rows.py",
    "agent_host/hub/store/sql.py",
    "agent_host/hub/store/tasks/rows.py",
    "agent_host/listener/ledger/rows.py",
    "agent_host/proxy/shown_catalog.py",
    "agent_runtime/loop/requests/tasks.py",
    "agent_runtime/mediation/ledger/ledger.py",
    "agent_runtime/mediation/work/turn_worker.py",
    "agent_runtime/mesh/search.py",
    "agent_runtime/skills/sources/grants.py",
    "agent_runtime/skills/worker/schema/pydantic_hints.py",
    "agent_runtime/workspace/prompt_files/authorship.py",
    "agent_runtime/workspace/prompt_files/unfinished_calls.py",
}
"""Files whose JSON is read by pydantic: rows and files that this product has written, and answers of a guest's host."""


def test_json_from_outside_is_read_within_limits() -> None:
    """By `agent_common.json_reader`. Ruff bars the other parsers (TID251); it does not see methods of models."""
    servers = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in ("agent_host", "agent_runtime")]
    readers = {
        str(path.relative_to(ROOT))
        for path in servers
        if facts_of(path).loads & {"model_validate_json", "validate_json"}
    }
    assert readers == OWN_JSON


RETIRED = (
    "bare bond books box briefing clerk desk diary door doors duty ends errand fitting ground hallway hoard house "
    "household hygiene kit ladder lane leash life lives mandate nobody notebook pace parcel patience pen place posture "
    "powers ration room rooms rung rungs said seat settle settled shelf somebody standing talk tally tap told trail "
    "unaided untouched veil ways whatever whoever"
)
"""Private words of earlier versions, each of which has a word of the field in its place (docs/glossary.md)."""
KEPT = {"lives", "ends_by_lifeline", "_ends_by_lifeline", "ends_at_margin", "_ENDS_IN_WORD", "_NO_ROOM"}
"""A column of the database, names with the verb `ends`, and errors of a disk that has no room: ordinary words."""


def words_of(name: str) -> set[str]:
    """The words of a name in any of the three spellings."""
    return {word.lower() for word in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_no_name_has_a_retired_word() -> None:
    retired = set(RETIRED.split())
    named = [(path.stem, str(path.relative_to(ROOT))) for path in SOURCES]
    for path in SOURCES:
        named += [(name, f"{path.relative_to(ROOT)}:{line}") for name, line in facts_of(path).names if name not in KEPT]
    assert [f"{where} {name}" for name, where in named if words_of(name) & retired] == []


def test_the_words_of_a_name_are_found_in_any_spelling() -> None:
    for name in ("HTTPRoomLimit", "_http_room_limit", "HTTP_ROOM_LIMIT"):
        assert words_of(name) == {"http", "room", "limit"}
