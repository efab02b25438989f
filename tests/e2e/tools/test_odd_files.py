"""Files and arguments as people and models write them, by a model's calls at a live runtime."""

from __future__ import annotations

import os
import unicodedata
from typing import Any

import pytest

from agent_testing import Call, Say

from ..live import Runtime, fresh


def call(agent: Runtime, name: str, **arguments: Any) -> Any:
    """What a call of the model gives: its data, or the text of its error."""
    agent.provider.script.replace([Call(name, arguments), Say("done")])
    reply = agent.chat("go", session_id=fresh("s"))
    assert reply.status_code == 200, reply.text
    [made] = reply.json()["tool_outputs"]
    return made["output"]["data"] if made["state"] == "output-available" else str(made["output"])


def put(agent: Runtime, name: str, content: str | bytes) -> str:
    """Write a file in a folder of this test's own; its path in the workspace."""
    path = f"{fresh('odd')}/{name}"
    at = agent.data_dir / "workspace" / path
    at.parent.mkdir(parents=True)
    at.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def got(agent: Runtime, path: str) -> bytes:
    return (agent.data_dir / "workspace" / path).read_bytes()


EDITS = {
    "CR LF, two lines": ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
    "CR LF, one line becomes two": ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
    "CR LF, the end of a line": ("key = 1\r\nb\r\n", "key = 1\n", "key = 2\n", "key = 2\r\nb\r\n"),
    "curly quotes": ("say \u201chello\u201d", 'say "hello"', 'say "goodbye"', "say \u201cgoodbye\u201d"),
    "a decomposed accent": ("cafe\u0301 noir", "caf\u00e9 noir", "caf\u00e9 blanc", "cafe\u0301 blanc"),
    "a no-break space": ("10\u00a0km away", "10 km away", "20 km away", "20\u00a0km away"),
}


@pytest.mark.parametrize(("content", "old", "new", "expected"), EDITS.values(), ids=EDITS.keys())
def test_an_edit_finds_the_text_and_keeps_the_forms_of_the_file(
    agent: Runtime, content: str, old: str, new: str, expected: str
) -> None:
    path = put(agent, "f.txt", content)
    found = call(agent, "edit", path=path, old_string=old, new_string=new)
    assert got(agent, path).decode() == expected, found


def test_the_character_that_differs_is_named(agent: Runtime) -> None:
    path = put(agent, "f.txt", "access = p\u0430ssword\n")
    told = call(agent, "edit", path=path, old_string="access = password", new_string="x")
    assert unicodedata.name("\u0430").lower() in told


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_its_mark_is_text(agent: Runtime, encoding: str) -> None:
    path = put(agent, "f.txt", "\ufefffirst\r\nheron\r\n".encode(encoding))
    assert call(agent, "read", path=path)["content"] == "first\r\nheron\r\n"
    folder = os.path.dirname(path)
    assert [one["line"] for one in call(agent, "grep", pattern="heron", path=folder)["matches"]] == [2]
    call(agent, "edit", path=path, old_string="heron", new_string="crane")
    assert got(agent, path).decode("utf-16").replace("\ufeff", "") == "first\r\ncrane\r\n"


def test_a_file_that_grep_passes_over_is_named(agent: Runtime) -> None:
    folder = os.path.dirname(put(agent, "f.txt", "heron".encode("utf-16-le")))
    found = call(agent, "grep", pattern="heron", path=folder)
    assert "f.txt (binary)" in str(found["left_out"])


def test_brackets_name_the_folder_that_is_called_so(agent: Runtime) -> None:
    top = os.path.dirname(put(agent, "[id]/page.tsx", "heron\n")).removesuffix("/[id]")
    beside = agent.data_dir / "workspace" / top / "d" / "page.tsx"
    beside.parent.mkdir()
    beside.write_text("heron\n")
    assert call(agent, "glob", pattern=f"{top}/[id]/*")["entries"] == [f"{top}/[id]/page.tsx"]
    found = call(agent, "grep", pattern="heron", path=top, include="[id]/*.tsx")
    assert [one["path"] for one in found["matches"]] == [f"{top}/[id]/page.tsx"]


@pytest.mark.parametrize("at", [3000, 250_000])
def test_a_hit_far_out_in_a_long_line_is_shown(agent: Runtime, at: int) -> None:
    folder = os.path.dirname(put(agent, "f.txt", f"{'x' * at}heron{'x' * (300_000 - at)}\n"))
    [match] = call(agent, "grep", pattern="heron", path=folder)["matches"]
    assert "heron" in match["text"]
    assert len(match["text"]) < 1000


ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a number as text": ("read", {"limit": "1"}),
    "null for what may be left out": ("read", {"limit": 1, "offset": None}),
    "a truth as text": ("edit", {"old_string": "a", "new_string": "b", "replace_all": "true"}),
    "a truth in capitals": ("edit", {"old_string": "a", "new_string": "b", "replace_all": "True"}),
}


@pytest.mark.parametrize(("name", "arguments"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_of_another_type_are_converted(agent: Runtime, name: str, arguments: dict[str, Any]) -> None:
    path = put(agent, "f.txt", "a\na\n")
    found = call(agent, name, path=path, **arguments)
    assert isinstance(found, dict), found
    assert got(agent, path) == (b"a\na\n" if name == "read" else b"b\nb\n")
