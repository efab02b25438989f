"""What is imported is declared, in the extra that needs it, and what is declared is used."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import agent_common

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {
    *("agent_common", "agent_client", "agent_runtime", "agent_host", "agent_testing", "agent_conformance"),
    "frontends",
}
OURS = PACKAGES | {"examples", "images", "scripts", "tests"}
LOADED_BY_OTHERS = {
    "coverage",
    "editables",
    "hatchling",
    "import-linter",
    "psycopg",
    "pytest-randomly",
    "pyright",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "uv",
}
"""Tools that are run, and plugins of tools."""
DISTRIBUTIONS = packages_distributions()
MODULES = {
    distribution.lower(): name for name, distributions in DISTRIBUTIONS.items() for distribution in distributions
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    """Distributions that the project asks for, with these extras."""
    wanted = [*PROJECT["dependencies"], *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]
    names = {normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0]) for requirement in wanted}
    return names - {normal(PROJECT["name"])}


def sources(folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts)


def imported(folders: Iterable[str]) -> dict[str, Path]:
    """Distributions whose modules are imported, with a file that does so."""
    found: dict[str, Path] = {}
    for path in sources(folders):
        for top in top_modules(path):
            for distribution in DISTRIBUTIONS.get(top, ()):
                if top not in sys.stdlib_module_names and top not in OURS:
                    found.setdefault(normal(distribution), path.relative_to(ROOT))
    return found


@functools.cache
def top_modules(path: Path) -> frozenset[str]:
    """First parts of the names that a file imports, its own package's left out."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.append(node.module)
    return frozenset(name.partition(".")[0] for name in names)


def test_code_and_project_have_one_version() -> None:
    assert agent_common.__version__ == PROJECT["version"]


@pytest.mark.parametrize(
    ("folders", "extras"),
    [
        (["agent_common", "agent_runtime"], ["skills"]),
        (["agent_client"], ["client"]),
        (["agent_host", "agent_conformance"], ["host"]),
        (["frontends"], ["bots", "client"]),
        (["agent_testing"], ["bots", "host", "dev"]),
        (["tests", "scripts", "examples", "images"], ["bots", "client", "host", "dev"]),
    ],
)
def test_what_is_imported_is_declared(folders: list[str], extras: list[str]) -> None:
    known = declared(*extras)
    undeclared = {name: str(path) for name, path in imported(folders).items() if name not in known}
    assert undeclared == {}


@pytest.mark.parametrize(
    ("extra", "folders"),
    [(None, ["agent_common", "agent_runtime"]), *((extra, sorted(OURS)) for extra in PROJECT["optional-dependencies"])],
)
def test_what_is_declared_is_used_where_it_is_declared(extra: str | None, folders: list[str]) -> None:
    """By an import, or by its module's name where that is loaded late."""
    wanted = declared() if extra is None else declared(extra) - declared()
    texts = "\n".join(path.read_text() for path in sources(folders) if path != Path(__file__))
    used = imported(folders)
    unused = {
        name
        for name in wanted - LOADED_BY_OTHERS
        if name not in used and f'"{MODULES.get(name, name)}"' not in texts and not name.startswith("types-")
    }
    assert unused == set()
