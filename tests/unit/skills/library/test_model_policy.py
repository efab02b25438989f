"""Packages that their authors keep from models in `agents/openai.yaml`, as Codex reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .shelves import Ground, package

POLICY = "policy:\n  allow_implicit_invocation: false\n"
KEPT = [
    POLICY,
    POLICY.replace("false", "False  # by its author"),
    POLICY.replace("false", "no"),
    POLICY.replace("false", '"off"').replace("\n", "\r\n"),
    "policy: {allow_implicit_invocation: false}",
    '{"policy": {"products": ["x"], "allow_implicit_invocation": false}}',
    f"\ufeffinterface:\n  display_name: Deploy\n{POLICY}",
    f"interface:\n  short_description: not YAML: at all\n{POLICY}",
    f"\tbroken: [\n{POLICY}",
]
OFFERED = [
    POLICY.replace("false", "true"),
    POLICY.replace("false", "'Yes'"),
    "policy:\n  # allow_implicit_invocation: false\n",
    "interface:\n  display_name: Deploy\n",
    "interface: {[: broken",
    "",
]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def write(ground: Ground, content: str | bytes, where: str = "project") -> Path:
    file = package(getattr(ground, where), "deploy") / "agents" / "openai.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def invocation(ground: Ground) -> str:
    [found] = [one for one in ground.library.catalog().packages if one["name"] == "deploy"]
    return found.get("invocation", "model")


def told(ground: Ground) -> str:
    return "; ".join(one.reason for one in ground.library.catalog().faults)


@pytest.mark.parametrize("where", ["project", "user", "more"])
@pytest.mark.parametrize("content", KEPT)
def test_a_package_that_is_kept_from_models_is_not_offered(ground: Ground, content: str, where: str) -> None:
    write(ground, content, where)
    assert (ground.names(), invocation(ground), told(ground)) == ([], "person", "")


@pytest.mark.parametrize("content", OFFERED)
def test_any_other_package_is_offered(ground: Ground, content: str) -> None:
    write(ground, content)
    assert (ground.names(), told(ground)) == (["deploy"], "")


UNREAD = {
    "large": "it is larger than 64 KiB",
    "other bytes": "it is not UTF-8 text",
    "a folder": "",
    "a pipe": "",
    "a link out": "is a link that leads out of the workspace",
}


@pytest.mark.parametrize(("kind", "reason"), UNREAD.items())
def test_what_cannot_be_read_keeps_the_package_and_is_told(
    ground: Ground, tmp_path: Path, kind: str, reason: str
) -> None:
    file = write(ground, b"\xff\xfe" if kind == "other bytes" else "# \n" * 50_000 if kind == "large" else "")
    if kind not in ("large", "other bytes"):
        file.unlink()
    if kind == "a folder":
        file.mkdir()
    if kind == "a pipe":
        os.mkfifo(file)
    if kind == "a link out":
        (tmp_path / "elsewhere.yaml").write_text("policy:\n  allow_implicit_invocation: true\n")
        file.symlink_to(tmp_path / "elsewhere.yaml")
    assert (ground.names(), invocation(ground)) == ([], "person")
    assert "agents/openai.yaml cannot be read, so that only a person may name the package: " in told(ground)
    assert reason in told(ground)
    assert not told(ground).endswith(": ")


def test_a_change_is_noticed_though_the_package_is_the_same(ground: Ground) -> None:
    package(ground.project, "deploy")
    assert invocation(ground) == "model"
    file = write(ground, POLICY)
    assert invocation(ground) == "person"
    file.write_text("policy:\n  allow_implicit_invocation: true\n")
    assert invocation(ground) == "model"
    file.write_text(POLICY)
    assert invocation(ground) == "person"
    file.unlink()
    assert invocation(ground) == "model"
