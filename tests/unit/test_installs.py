"""No text of ours tells anybody to install a distribution by a name from an index: there the names are strangers'."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from agent_common import DISTRIBUTION

ROOT = Path(__file__).parents[2]
OWN = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
STRANGERS = ("agent-runtime", "agent-common", "agent-host", "agent-client", "agent-conformance", "agent-testing")
NAMES = r"agent[-_](?:runtime(?:[-_]mesh)?|common|host|client|conformance|testing)"
INSTALL = re.compile(
    rf"(?:\binstall\b|\buvx\b|\badd\b|\bpipx\b|--with\b|--from\b)[^\n|;#]*?(?<![\w./-])(?:['\"]?)(?:{NAMES})(?:\[[\w,]+\])?['\"]?(?![\w./-])",
    re.IGNORECASE,
)
SOURCE = re.compile(rf"\b(?:with|from|in) the (?:package|distribution) ['\"`]?{NAMES}(?![\w./-])", re.IGNORECASE)
"""A package as what a command comes with, which somebody would look for in an index."""
TEXTS = {".md", ".py", ".sh", ".toml", ".yaml", ".yml", ".txt", ".service", ".html", ".mjs", ".js", ".jsx"}


def faults(text: str) -> list[str]:
    """The lines that install one of the names, or require it, from an index."""
    flat = re.sub(r"`?pip install\n", "pip install ", text)
    return [line.strip() for line in flat.splitlines() if _is_index_install(line)]


def _is_index_install(line: str) -> bool:
    named = re.search(rf"(?<![\w./-])(?:{NAMES})\[[\w,]+\]", line)
    command = re.search(r"\b(?:pip3?|pipx|uv|uvx|poetry|conda)\b[^\n]*", line)
    if line.strip().strip('",').startswith(f"{OWN}[") or "all = [" in line:
        return False  # an extra of the distribution that consists of others
    return bool(named or SOURCE.search(line) or (command and INSTALL.search(command[0])))


def test_no_text_names_an_index_install() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if Path(name).suffix in TEXTS or "." not in Path(name).name]
    files = [path for path in files if path.is_file() and path != Path(__file__) and "node_modules" not in path.parts]
    assert len(files) > 1000
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in files
        if (wrong := faults(path.read_text("utf-8", errors="replace")))
    }
    assert found == {}


def test_the_distribution_has_a_name_of_its_own() -> None:
    assert OWN not in STRANGERS
    assert OWN == DISTRIBUTION


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pip install agent-runtime", True),
        ("pip install 'agent-runtime[skills]'", True),
        ("install agent-runtime[skills], or put uv on the PATH", True),
        ("`pip install\n'agent-runtime[client]'` installs it", True),
        ("uv tool install agent_host", True),
        ("uvx agent-runtime serve", True),
        ("uv add agent-client", True),
        ("it comes with the package agent-runtime", True),
        ("the packages of agent-runtime", False),
        ("uv tool install 'dist/agent_runtime-0.1.0-py3-none-any.whl[all]'", False),
        ("pip install --no-deps --require-hashes -r requirements/runtime.lock", False),
        ("agent-runtime serve", False),
        ("pip install .", False),
    ],
)
def test_the_scan_finds_them(line: str, wrong: bool) -> None:
    assert bool(faults(line)) is wrong
