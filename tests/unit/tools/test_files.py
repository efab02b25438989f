"""read, write and edit, through the gate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.ports import ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import ToolRegistry
from agent_runtime.tools.files.edit import edit_tool
from agent_runtime.tools.files.paths import TEXT_LIMIT
from agent_runtime.tools.files.quota import QuotaCheck
from agent_runtime.tools.files.read import READ_LIMIT, read_tool
from agent_runtime.tools.files.write import write_tool
from agent_runtime.workspace import FileBackups, PathLocks
from agent_testing import ManualClock

Call = Callable[..., Awaitable[ToolResult]]


def caller(context: ToolContext) -> Call:
    locks, space, backups = PathLocks(), QuotaCheck(Confinement(None)), FileBackups(ManualClock())
    own = [read_tool(PathLocks()), write_tool(locks, space, backups), edit_tool(locks, space, backups)]
    tools = ToolRegistry(own).snapshot()

    async def run(name: str, **arguments: Any) -> ToolResult:
        result = await tools.run(name, arguments, context)
        assert isinstance(result, ToolResult)
        return result

    return run


@pytest.fixture
def call(context: ToolContext) -> Call:
    return caller(context)


def put(context: ToolContext, name: str, content: bytes) -> None:
    (context.workspace / name).write_bytes(content)


def got(context: ToolContext, name: str) -> bytes:
    return (context.workspace / name).read_bytes()


# ---------------------------------------------------------------- read


async def test_read_a_whole_file(call: Call, context: ToolContext) -> None:
    put(context, "f", b"one\ntwo\n")
    result = await call("read", path="f")
    assert result.data == {
        "content": "one\ntwo\n",
        "total_bytes": 8,
        "range": {"unit": "lines", "first": 1, "last": 2, "total": 2},
    }
    assert set(result.metadata) == {"duration_ms"}


async def test_read_nothing(call: Call, context: ToolContext) -> None:
    put(context, "f", b"")
    assert (await call("read", path="f")).data["content"] == ""
    assert (await call("read", path="f", unit="bytes")).data["content"] == ""


async def test_read_some_lines_and_hear_where_to_go_on(call: Call, context: ToolContext) -> None:
    put(context, "f", b"1\n2\r\n3\rx\n4")
    data = (await call("read", path="f", offset=2, limit=2)).data
    assert data["content"] == "2\r\n3\rx\n"
    assert data["range"] == {"unit": "lines", "first": 2, "last": 3, "total": 4}
    assert data["next"] == {"unit": "lines", "offset": 4}
    last = (await call("read", path="f", **data["next"])).data
    assert last["content"] == "4"
    assert "next" not in last


async def test_read_some_bytes(call: Call, context: ToolContext) -> None:
    put(context, "f", "aé\N{ROCKET}z".encode())
    first = (await call("read", path="f", unit="bytes", limit=5)).data
    assert first["content"] == "aé", "never half a character"
    assert first["next"] == {"unit": "bytes", "offset": 3}
    assert (await call("read", path="f", offset=3, unit="bytes")).data["content"] == "\N{ROCKET}z"


@pytest.mark.parametrize(("unit", "offset", "told"), [("lines", 4, "has 2 lines"), ("bytes", 9, "has 8 bytes")])
async def test_read_beyond_the_end(call: Call, context: ToolContext, unit: str, offset: int, told: str) -> None:
    put(context, "f", b"one\ntwo\n")
    result = await call("read", path="f", offset=offset, unit=unit)
    assert result.error_text == f"offset: f {told}"


@pytest.mark.parametrize("over", [0, 1])
async def test_the_boundary_of_one_answer(call: Call, context: ToolContext, over: int) -> None:
    put(context, "f", b"x" * 99 + b"\n" + b"y" * (READ_LIMIT - 100 + over))
    result = await call("read", path="f")
    assert ("truncated" in result.metadata) == bool(over)
    assert len(result.data["content"]) == (100 if over else READ_LIMIT)
    if over:
        assert result.metadata["output_path"] == str(context.workspace / "f")
        assert result.data["next"] == {"unit": "lines", "offset": 2}


async def test_a_line_that_is_too_long_is_read_in_bytes(call: Call, context: ToolContext) -> None:
    put(context, "f", b"short\n" + "é".encode() * READ_LIMIT)
    first = await call("read", path="f", offset=2)
    assert first.data["range"]["unit"] == "bytes"
    assert first.metadata["truncated"]
    text, after = first.data["content"], first.data["next"]
    while after:
        data = (await call("read", path="f", **after)).data
        text, after = text + data["content"], data.get("next")
    assert text == "é" * READ_LIMIT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60), st.integers(4, 9))
async def test_pages_put_together_are_the_file(context: ToolContext, text: str, page: int) -> None:
    put(context, "f", text.encode())
    call = caller(context)
    for unit, limit in (("lines", 2), ("bytes", page)):
        pages, after = "", {"unit": unit, "offset": 0}
        while after:
            data = (await call("read", path="f", limit=limit, **after)).data
            pages, after = pages + data["content"], data.get("next")
        assert pages == text


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"text" * 100 + b"\0"])
async def test_binary_files_are_refused_by_kind(call: Call, context: ToolContext, content: bytes) -> None:
    put(context, "f", content)
    for unit in ("lines", "bytes"):
        result = await call("read", path="f", unit=unit)
        assert "f is a binary file of" in (result.error_text or "")
        assert result.metadata["kind"] == "invalid"


async def test_other_encodings_are_shown_as_far_as_they_go(call: Call, context: ToolContext) -> None:
    put(context, "f", b"na\xefve")
    data = (await call("read", path="f")).data
    assert data["content"] == "na\ufffdve"
    assert "not all of it is UTF-8" in data["note"]
    put(context, "f", "a real \ufffd".encode())
    assert "note" not in (await call("read", path="f")).data
    put(context, "f", b"x\x80\x80\x80\x80\x80\x80")
    assert (await call("read", path="f", unit="bytes", limit=5)).data["range"]["last"] == 5, "it goes on all the same"


async def test_a_huge_file_costs_no_memory_and_has_one_clear_error(call: Call, context: ToolContext) -> None:
    with (context.workspace / "f").open("wb") as file:
        file.write(b"begin")
        file.truncate(2 * 2**30)
    for name, arguments in (("read", {}), ("edit", {"old_string": "begin", "new_string": "end"})):
        result = await call(name, path="f", **arguments)
        assert result.error_text == (
            "f is 2048.0 MiB; text is handled up to 10 MiB. Use grep, or bash with head, tail or sed"
        )
    assert (await call("read", path="f", unit="bytes", limit=5)).error_text is not None, "it is full of null bytes"


# ---------------------------------------------------------------- write


async def test_write_acknowledges_and_echoes_nothing(call: Call, context: ToolContext) -> None:
    result = await call("write", path="a/b.txt", content="é\n")
    assert result.data == {"path": "a/b.txt", "bytes": 3, "created": True}
    assert (await call("write", path="a/b.txt", content="")).data["created"] is False
    assert got(context, "a/b.txt") == b""


@pytest.mark.parametrize("path", ["package.json", "app.webmanifest", "a/Notes.IPYNB"])
async def test_a_json_file_may_be_given_as_its_value(call: Call, context: ToolContext, path: str) -> None:
    result = await call("write", path=path, content={"name": "\u00e9", "a": [1.0, None], "b": {}})
    assert result.type == "output", result.error_text
    assert got(context, path).decode() == ('{\n  "name": "\u00e9",\n  "a": [\n    1.0,\n    null\n  ],\n  "b": {}\n}\n')
    await call("write", path=path, content=[])
    assert got(context, path) == b"[]\n"
    await call("write", path=path, content='["1"]')
    assert got(context, path) == b'["1"]', "a text is the text"


@pytest.mark.parametrize("path", ["settings.yaml", "rows.jsonl", "json"])
async def test_other_files_are_given_as_a_text(call: Call, context: ToolContext, path: str) -> None:
    result = await call("write", path=path, content={"a": 1})
    assert result.error_text == "content: give the whole content as one string, not as an object or a list"
    assert result.metadata["kind"] == "invalid"
    assert not (context.workspace / path).exists()


async def test_write_follows_a_link_inside_and_keeps_it(call: Call, context: ToolContext) -> None:
    put(context, "real", b"old")
    (context.workspace / "link").symlink_to("real")
    assert (await call("write", path="link", content="new")).data["path"] == "real"
    assert got(context, "real") == b"new"
    assert (context.workspace / "link").is_symlink()


async def test_what_cannot_be_written_says_why(call: Call, context: ToolContext) -> None:
    (context.workspace / "folder").mkdir()
    assert (await call("write", path="folder", content="x")).error_text == "folder is a folder; name a file in it"
    assert (await call("write", path=".", content="x")).type == "error"
    put(context, "file", b"")
    assert "is not a folder" in ((await call("write", path="file/x", content="x")).error_text or "")
    result = await call("write", path="../x", content="x")
    assert result.metadata["kind"] == "denied"


async def test_the_bound_is_the_same_for_writing(call: Call, context: ToolContext) -> None:
    assert (await call("write", path="f", content="x" * TEXT_LIMIT)).type == "output"
    assert "content is 10.0 MiB" in ((await call("write", path="f", content="x" * (TEXT_LIMIT + 1))).error_text or "")
    result = await call("edit", path="f", old_string="x" * TEXT_LIMIT, new_string="y" * TEXT_LIMIT + "z")
    assert "f after the edit is 10.0 MiB" in (result.error_text or "")
    assert len(got(context, "f")) == TEXT_LIMIT


# ---------------------------------------------------------------- edit


async def test_edit_once(call: Call, context: ToolContext) -> None:
    put(context, "f", b"a\r\nb\xff\nc")
    result = await call("edit", path="f", old_string="a\r\nb", new_string="x")
    assert result.data == {"path": "f", "occurrences": 1, "lines_added": 1, "lines_removed": 2}
    assert got(context, "f") == b"x\xff\nc", "what is around it stays as it was, UTF-8 or not"


async def test_edit_everywhere(call: Call, context: ToolContext) -> None:
    put(context, "f", b"ab ab ab")
    result = await call("edit", path="f", old_string="ab", new_string="", replace_all=True)
    assert (result.data["occurrences"], result.data["lines_added"]) == (3, 0)
    assert got(context, "f") == b"  "


async def test_an_edit_that_is_not_clear_changes_nothing(call: Call, context: ToolContext) -> None:
    content = b"\n".join([b"x"] * 12)
    put(context, "f", content)
    for arguments, told in [
        ({"old_string": "y", "new_string": "z"}, "old_string: is not in f"),
        (
            {"old_string": "x", "new_string": "z"},
            "occurs 12 times in f, on lines 1, 2, 3, 4, 5, 6, 7, 8, ...",
        ),
        ({"old_string": "x\nx\nx\nx\nx", "new_string": "z"}, "occurs 2 times in f, on lines 1, 6; add"),
        ({"old_string": "x", "new_string": "x"}, "new_string: is the same"),
        ({"old_string": "", "new_string": "x"}, "old_string: minLength is 1"),
    ]:
        result = await call("edit", path="f", **arguments)
        assert told in (result.error_text or "")
        assert result.metadata["kind"] == "invalid"
    assert got(context, "f") == content
    assert "does not exist" in ((await call("edit", path="g", old_string="a", new_string="b")).error_text or "")


async def test_edit_sees_what_others_wrote_in_between(call: Call, context: ToolContext) -> None:
    await call("write", path="f", content="one")
    put(context, "f", b"two")
    assert (await call("edit", path="f", old_string="two", new_string="three")).type == "output"


async def test_edits_of_one_path_at_the_same_time_are_all_kept(call: Call, context: ToolContext) -> None:
    put(context, "f", b"".join(b"<%d>" % n for n in range(30)))
    (context.workspace / "link").symlink_to("f")
    edits = (call("edit", path="link" if n % 2 else "f", old_string=f"<{n}>", new_string=f"[{n}]") for n in range(30))
    results = await asyncio.gather(*edits)
    assert {result.type for result in results} == {"output"}
    assert got(context, "f") == b"".join(b"[%d]" % n for n in range(30))


async def test_readers_see_the_old_file_or_the_new_one(call: Call, context: ToolContext) -> None:
    texts = ["a" * 50_000, "b" * 50_000]
    await call("write", path="f", content=texts[0])

    async def write() -> None:
        for n in range(30):
            await call("write", path="f", content=texts[n % 2])

    writing = asyncio.create_task(write())
    while not writing.done():
        assert (await call("read", path="f")).data["content"] in texts
    await writing


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_is_read_only_says_so(call: Call, context: ToolContext) -> None:
    context.workspace.chmod(0o555)
    assert "Permission denied" in ((await call("write", path="f", content="x")).error_text or "")


# ---------------------------------------------------------------- backups


async def test_a_result_names_the_version_before(call: Call, context: ToolContext) -> None:
    assert "backup" not in (await call("write", path="f", content="one")).metadata
    second = await call("write", path="f", content="two")
    third = await call("edit", path="f", old_string="two", new_string="three")
    kept = [got(context, result.metadata["backup"]) for result in (second, third)]
    assert kept == [b"one", b"two"]
    assert (await call("read", path=third.metadata["backup"])).data["content"] == "two"
    assert "backup" not in (await call("write", path="f", content="three")).metadata, "nothing has changed"


async def test_a_version_that_cannot_be_kept_stops_no_change(call: Call, context: ToolContext) -> None:
    put(context, "f", b"one")
    put(context, ".backups", b"in the way")
    result = await call("write", path="f", content="two")
    assert "is not a folder" in result.metadata["backup_failed"]
    assert got(context, "f") == b"two"


async def test_scratch_is_for_what_nobody_will_miss(call: Call, context: ToolContext) -> None:
    for content in ("one", "two"):
        result = await call("write", path=str(context.scratch / "f"), content=content)
        assert "backup" not in result.metadata
    assert not (context.scratch / ".backups").exists()


# ---------------------------------------------------------------- what the model saw


@pytest.mark.parametrize("shown", ["x\\u202ey", "x\\u{202e}y", "x\u202ey"])
async def test_an_edit_takes_an_escape_for_the_character_that_the_model_saw_as_one(
    call: Call, context: ToolContext, shown: str
) -> None:
    put(context, "f", "a = 'x\u202ey'\n".encode())
    assert (await call("edit", path="f", old_string=f"'{shown}'", new_string=f"'{shown}' + z")).type == "output"
    assert got(context, "f").decode() == "a = 'x\u202ey' + z\n", "what it left as it was is as it was"


async def test_an_edit_prefers_the_text_itself(call: Call, context: ToolContext) -> None:
    put(context, "f.js", "a = '\\u{202e}'; b = '\u202e'\n".encode())
    assert (await call("edit", path="f.js", old_string="'\\u{202e}'", new_string="''")).type == "output"
    assert got(context, "f.js").decode() == "a = ''; b = '\u202e'\n"
    changed = await call("edit", path="f.js", old_string="'\\u{202e}'", new_string="'\\u{202e}\\u{200b}'")
    assert changed.type == "output"
    assert got(context, "f.js").decode() == "a = ''; b = '\u202e\\u{200b}'\n", (
        "what the model did not see is taken literally"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_a_file_in_utf_16_is_read_and_edited_as_text(call: Call, context: ToolContext, encoding: str) -> None:
    put(context, "f", "\ufeffname = \u201cold\u201d\r\nnext\r\n".encode(encoding))
    assert (await call("read", path="f")).data["content"] == "name = \u201cold\u201d\r\nnext\r\n"
    assert (await call("read", path="f", offset=2)).data["content"] == "next\r\n"
    done = await call("edit", path="f", old_string='name = "old"\nnext', new_string='name = "new"\nnext')
    assert done.type == "output", done.error_text
    assert got(context, "f") == "\ufeffname = \u201cnew\u201d\r\nnext\r\n".encode(encoding)


async def test_what_is_marked_as_utf_16_and_is_none_is_told(call: Call, context: ToolContext) -> None:
    put(context, "f", b"\xff\xfea")
    assert "not valid UTF-16" in ((await call("read", path="f")).error_text or "")
    assert "not valid UTF-16" in ((await call("edit", path="f", old_string="a", new_string="b")).error_text or "")


MARKED = {"utf-8 with a mark": "utf-8-sig", "utf-16": "utf-16-le", "utf-16 of other machines": "utf-16-be"}


@pytest.mark.parametrize("encoding", MARKED.values(), ids=MARKED.keys())
async def test_a_file_that_is_written_anew_keeps_its_encoding(call: Call, context: ToolContext, encoding: str) -> None:
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    put(context, "notes.txt", f"{mark}old".encode(encoding))
    await call("write", path="notes.txt", content="n\u00e9w\n")
    assert got(context, "notes.txt") == f"{mark}n\u00e9w\n".encode(encoding)
    await call("write", path="other.txt", content="n\u00e9w\n")
    assert got(context, "other.txt") == "n\u00e9w\n".encode()


LINE_ENDS = {
    "CR LF": ("@echo off\r\necho 1\r\n", "@echo off\necho 2\n", "@echo off\r\necho 2\r\n"),
    "CR LF, no end of the last line": ("a\r\nb", "a\nc", "a\r\nc"),
    "CR LF, given so": ("a\r\nb\r\n", "a\r\nc\r\n", "a\r\nc\r\n"),
    "CR LF, given in both": ("a\r\nb\r\n", "a\r\nc\n", "a\r\nc\n"),
    "mixed": ("a\r\nb\n", "a\nc\n", "a\nc\n"),
    "LF": ("a\nb\n", "a\nc\n", "a\nc\n"),
    "no line end": ("a", "a\nc\n", "a\nc\n"),
    "nothing": ("", "a\nc\n", "a\nc\n"),
}


@pytest.mark.parametrize(("before", "content", "after"), LINE_ENDS.values(), ids=LINE_ENDS.keys())
@pytest.mark.parametrize("encoding", ["utf-8", *MARKED.values()])
async def test_a_file_that_is_written_anew_keeps_cr_lf(
    call: Call, context: ToolContext, encoding: str, before: str, content: str, after: str
) -> None:
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    put(context, "run.bat", f"{mark}{before}".encode(encoding))
    data = (await call("write", path="run.bat", content=content)).data
    assert got(context, "run.bat") == f"{mark}{after}".encode(encoding)
    assert data["bytes"] == len(got(context, "run.bat"))
    assert data.get("line_ends") == (None if content == after else "CR LF, as before")
    await call("write", path="new.bat", content=content)
    assert got(context, "new.bat") == content.encode()


async def test_room_is_asked_for_what_is_written(context: ToolContext) -> None:
    class Room(QuotaCheck):
        async def require_space(self, path: Path, size: int, context: ToolContext) -> None:
            asked.append(size)

    asked: list[int] = []
    write = write_tool(PathLocks(), Room(Confinement(None)), FileBackups(ManualClock()))
    put(context, "run.bat", b"a\r\n")
    await ToolRegistry([write]).snapshot().run("write", {"path": "run.bat", "content": "a\nb\n"}, context)
    assert asked == [len(got(context, "run.bat"))]


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "mac-roman"])
async def test_text_of_other_encodings_is_not_lost_and_not_mixed(
    call: Call, context: ToolContext, encoding: str
) -> None:
    before = "caf\u00e9\nx = 1\n".encode(encoding)
    put(context, "old.txt", before)
    shown = (await call("read", path="old.txt")).data["content"]
    assert "\ufffd" in shown
    written = await call("write", path="old.txt", content=shown)
    edited = await call("edit", path="old.txt", old_string="x = 1", new_string='x = "\u00fc"')
    for result in (written, edited):
        assert "old.txt is not UTF-8" in (result.error_text or "")
    assert got(context, "old.txt") == before
    await call("edit", path="old.txt", old_string="x = 1", new_string="x = 2")
    assert got(context, "old.txt") == before.replace(b"1", b"2")
    await call("write", path="old.txt", content="caf\u00e9\n")
    assert got(context, "old.txt") == "caf\u00e9\n".encode()


ALIKE = {
    "an accent in parts": ("Capture d\u2019e\u0301cran.md", "Capture d'\u00e9cran.md"),
    "a blank of another width": ("Shot 9.00.00\u202fAM.md", "Shot 9.00.00 AM.md"),
    "a dash": ("2025\u20132026.md", "2025-2026.md"),
    "in parts asked for": ("\u00fcber.md", "u\u0308ber.md"),
    "its folder": ("e\u0301t\u00e9/notes.md", "\u00e9t\u00e9/notes.md"),
}


@pytest.mark.parametrize(("there", "asked"), ALIKE.values(), ids=ALIKE.keys())
async def test_a_name_that_reads_the_same_is_found(call: Call, context: ToolContext, there: str, asked: str) -> None:
    if folder := there.rpartition("/")[0]:
        (context.workspace / folder).mkdir()
    put(context, there, b"one\n")
    assert (await call("read", path=asked)).data["content"] == "one\n"
    await call("edit", path=asked, old_string="one", new_string="two")
    await call("write", path=asked, content="three\n")
    assert got(context, there) == b"three\n"
    names = [str(one.relative_to(context.workspace)) for one in context.workspace.rglob("*.md")]
    assert [name for name in names if not name.startswith(".backups/")] == [there]


async def test_a_name_is_its_own_before_it_is_one_that_reads_the_same(call: Call, context: ToolContext) -> None:
    put(context, "it\u2019s.md", b"curly\n")
    put(context, "it's.md", b"straight\n")
    put(context, "it\u2032s.md", b"prime\n")
    assert (await call("read", path="it's.md")).data["content"] == "straight\n"
    (context.workspace / "it's.md").unlink()
    which = await call("read", path="it's.md")
    assert "does not exist" in (which.error_text or "")
