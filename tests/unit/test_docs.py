"""The pages say what the code does, and what code and pages cite is there."""

from __future__ import annotations

import ast
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_runtime.api import AppState, create_app
from agent_runtime.cli.main import settings_help
from agent_runtime.loop import EventBus
from agent_runtime.runtime import MIGRATIONS
from agent_runtime.settings import PREFIX, Settings, load_settings
from scripts import settings, tools

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_page_of_settings_is_up_to_date() -> None:
    assert settings.PAGE.read_text() == settings.page(), "run: make docs"


def test_the_table_of_tools_is_up_to_date() -> None:
    assert tools.PAGE.read_text() == tools.page(), "run: make docs"
    assert "| `bash` | `command`" in tools.table()


def test_every_setting_is_a_line_of_help() -> None:
    text = settings_help()
    for name in Settings.model_fields:
        assert f"{PREFIX}{name.upper()}" in text


def test_every_route_is_on_the_page_of_the_http_face(tmp_path: Path) -> None:
    app = create_app(AppState(load_settings(data_dir=tmp_path), 0.0, EventBus(SystemClock())), SystemClock())
    text = (DOCS / "reference/http.md").read_text()
    paths = app.openapi()["paths"]
    assert "/task" in paths
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text


# ---------------------------------------------------------------- citations

FOLDERS = r"agent_\w+|docs|examples|images|requirements|scripts|spec|tests"
PATH = re.compile(
    rf"(?<![\w/.:$}}~-])((?:{FOLDERS})/(?:[\w.-]+/)*[\w.-]*\w|(?:\w[\w.-]*/)*\w[\w.-]*\.(?:md|py|sh|toml))"
    r"(?:#([\w-]+))?(?![\w/*{<])"
)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
RETIRED = re.compile(
    r"\b[Ss]pec (?:[A-Z]{0,2}\d|section)|\(spec[ :][^)]*|\((?:[A-Z]{1,2}\d{1,2}(?:, | to |\)))+"
    r"|(?<=\s)\((?:\d\.\d(?:, |\)))+"
)
"""Ids of rules that stand in no document of the repository."""
ELSEWHERE = re.compile(
    r"(?:SOUL|USER|MEMORY|CLAUDE|CONTEXT|CHANGELOG|report|notes|corrections)\.md"
    r"|(?:notes|plans|memory|learnings|secrets|skills|my-skills|NAME|\.backups)/.+|weather\.py|disk/guest\.py|.*/node_modules/.*"
)
"""Files of a workspace, an example or a build, which pages may name though they are not in the repository."""


@cache
def tracked() -> frozenset[str]:
    """Every file of the repository, also by the end of its path (`loop/turn/turn.py`), and every folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    parts = [name.split("/") for name in listed.split("\0") if name]
    ends = {"/".join(name[at:]) for name in parts for at in range(len(name))}
    return frozenset(ends | {"/".join(name[:at]) for name in parts for at in range(1, len(name))})


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", unfenced(page.read_text(encoding="utf-8")))
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


@cache
def conformance_rules() -> frozenset[str]:
    """The ids that the conformance tester prints."""
    return frozenset(re.findall(r"(?m)^\| ([AHL]\d\d) \|", (DOCS / "protocols/conformance.md").read_text("utf-8")))


def unfenced(text: str) -> str:
    """A page without its examples; lines keep their numbers."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", lambda fence: "\n" * fence[0].count("\n"), text)


def prose(name: str, text: str) -> Iterator[tuple[int, str]]:
    """What a file says to its readers: the text of a page, else comments and docstrings, each with its first line."""
    if name.endswith(".md"):
        yield 1, unfenced(text)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if (comment := re.search(r"(?:^|\s)#.*", line)) is not None:
            yield number, comment[0]
    for node in ast.walk(ast.parse(text)) if name.endswith(".py") else ():
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield node.lineno, said
            case _:
                continue


def dead(name: str, text: str) -> list[str]:
    """The citations in a file that lead nowhere."""
    if not name.endswith(".md") and not any(faults(name, text)):
        return []  # reading Python takes long, and few files need it
    found = {
        f"{name}:{first + line}: {cited}" for first, said in prose(name, text) for line, cited in faults(name, said)
    }
    if name.startswith("agent_"):  # a message of the product may send its reader to a page
        found |= {f"{name}:{line + 1}: {cited}" for line, cited in faults(name, text) if cited.startswith("docs/")}
    return sorted(found)


def faults(name: str, text: str) -> Iterator[tuple[int, str]]:
    """What is cited in a text and is not there, each with the number of line ends before it."""
    for found in PATH.finditer(text):
        path, anchor = found.groups()
        missing = path not in tracked() and not ELSEWHERE.fullmatch(path)
        if missing or (anchor and path.startswith("docs/") and anchor not in anchors(ROOT / path)):
            yield text.count("\n", 0, found.start()), found[0]
    for found in RETIRED.finditer(text):
        if not conformance_rules().issuperset(re.findall(r"\w+", found[0])):
            yield text.count("\n", 0, found.start()), found[0]
    for found in LINK.finditer(text) if name.endswith(".md") else ():
        page = (ROOT / name).parent / found[1] if found[1] else ROOT / name
        if not page.exists() or (found[2] and page.suffix == ".md" and found[2] not in anchors(page)):
            yield text.count("\n", 0, found.start()), found[0]


def test_whatever_is_cited_is_there() -> None:
    kinds = (".py", ".md", ".sh", ".toml", ".yaml", "Makefile", "Dockerfile", ".ci/run")
    names = [name for name in tracked() if name.endswith(kinds) and (ROOT / name).is_file()]
    assert len(names) > 500
    read = sorted(name for name in names if not name.startswith(("tests/corpora/", "tests/fixtures/")))
    assert [fault for name in read for fault in dead(name, (ROOT / name).read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scripts/a.py", '"""How it ends (DESIGN.md 5)."""'),
        ("scripts/a.py", "# the order (spec/mediation.md 2.4)"),
        ("scripts/a.py", 'x = 1\n"""No tools (spec K8)."""'),
        ("scripts/a.py", '"""One answer for each (E12)."""'),
        ("scripts/a.py", '"""Rows are copied (E1 to E8)."""'),
        ("scripts/a.py", '"""It reconnects (2.5, 2.7)."""'),
        ("scripts/a.py", "# the order (2.4)"),
        ("docs/reference/a.md", "The order (2.4) holds."),
        ("scripts/a.py", '"""See agent_runtime/loop/nowhere.py."""'),
        ("scripts/a.py", '"""See docs/reference/mediation.md#nowhere."""'),
        ("agent_host/a.py", 'raise ValueError("see docs/nowhere.md")'),
        ("scripts/a.sh", "# see docs/nowhere.md"),
        ("docs/reference/a.md", "See `loop/nowhere.py`."),
        ("docs/reference/a.md", "See [there](nowhere.md)."),
        ("docs/reference/a.md", "See [there](mediation.md#nowhere)."),
    ],
)
def test_a_citation_of_nothing_is_found(name: str, text: str) -> None:
    (found,) = dead(name, text)[:1]
    assert found.startswith(f"{name}:{1 + text.count(chr(10))}: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scripts/a.py", '"""See docs/reference/mediation.md#breaks, A30 and loop/turn/turn.py (A10, L32)."""'),
        ("scripts/a.py", 'path = "spec/data.md"'),
        (
            "docs/reference/a.md",
            "[There](mediation.md#breaks), in `loop/turn/turn.py`, beside `SOUL.md`.\n\n```sh\ncat nowhere.md\n```\n",
        ),
    ],
)
def test_a_citation_of_something_is_let_be(name: str, text: str) -> None:
    assert dead(name, text) == []


# ---------------------------------------------------------------- the four kinds

KINDS = ("tutorials", "how-to", "reference", "explanation")
PAGES = sorted(page for page in DOCS.rglob("*.md") if "node_modules" not in page.parts)


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    linked = {(DOCS / found[1]).resolve() for found in LINK.finditer(index)}
    assert [str(page.relative_to(DOCS)) for page in PAGES if page.name != "index.md" and page not in linked] == []


def test_every_page_is_of_one_kind() -> None:
    at_the_top = {"index.md", "glossary.md"}
    assert {page.relative_to(DOCS).parts[0] for page in PAGES} - at_the_top == {*KINDS, "protocols"}


def test_the_map_of_the_code_has_every_package() -> None:
    """Also those below: `loop/turn` is a row in the section of `agent_runtime`."""
    page = (DOCS / "explanation/architecture.md").read_text("utf-8")
    mapped: set[str] = set()
    for heading, body in re.findall(r"(?ms)^### (`(?:agent_|frontends).*?)\n(.*?)(?=^##)", page):
        cells = re.findall(r"(?m)^\| (`[\w/` ]+`) \|", body)
        rows = [row for cell in cells for row in re.findall(r"`([\w/]+)`", cell)]
        mapped |= {row if row.startswith(("agent_", "frontends")) else f"{heading.strip('`')}/{row}" for row in rows}
    package = re.compile(r"((?:agent_\w+|frontends)/.+)/__init__\.py")
    folders = [found[1] for name in tracked() if (found := package.fullmatch(name))]
    assert len(folders) > 90
    assert sorted(folder for folder in folders if folder not in mapped) == []


def test_the_map_of_the_database_has_every_table() -> None:
    section = (DOCS / "explanation/architecture.md").read_text("utf-8").partition("\n## The database\n")[2]
    mapped = {name for cell in re.findall(r"(?m)^\| (`\w+`[^|]*) \|", section) for name in re.findall(r"`(\w+)`", cell)}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for migration in sorted(MIGRATIONS, key=lambda one: one.number):
            migration.apply(database)
        named = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type != 'shadow'"
        tables = {name for (name,) in database.execute(named) if not name.startswith("sqlite_")}
    assert len(tables) > 20
    assert mapped == tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_opens_with_an_example(page: Path) -> None:
    """A command, a request, a snippet or a picture; the index of protocols and pages of tables may show a table."""
    opening = page.read_text("utf-8").partition("\n## ")[0]
    assert "```" in opening or page == DOCS / "protocols/README.md"
    assert opening.index("```" if "```" in opening else "| `") < 1200
