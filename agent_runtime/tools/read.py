"""`read`: a piece of a text file."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any

from ..errors import ToolFailure
from ..ports import ToolContext, ToolSpec
from ..workspace import PathLocks, Place
from .contract import READS, Output, Tool
from .envelope import HEAD
from .files import PATH, TEXT_LIMIT, Kind, checked, load, place, reach_of

READ_LIMIT = 200 * 1024
"""Bytes of content in one answer."""
SAMPLE = 8192
"""Bytes in which a null byte gives a binary file away."""

KINDS: tuple[Kind, ...] = ("read",)

DESCRIPTION = (
    "Read a text file, or a piece of it: offset and limit count lines, or bytes with unit=bytes. An answer holds up to "
    "200 KB and its `next` says where to go on. Not for images or other binary files, and not for folders (glob). "
    "Use it before editing, and to open the output_path of a truncated result."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": PATH,
        "offset": {"type": "integer", "minimum": 0, "description": "First line, from 1; or first byte, from 0"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "Most lines or bytes; default: all that fit",
        },
        "unit": {"type": "string", "enum": ["lines", "bytes"], "description": "Default: lines"},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def read_tool(locks: PathLocks) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        piece = _bytes if arguments.get("unit") == "bytes" else _lines
        async with locks.turn(place(arguments["path"], context).path):  # it sees what was written before it was called
            at = checked("read", KINDS, arguments["path"], context)
            return await asyncio.to_thread(piece, at, arguments)

    spec = ToolSpec("read", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        READS,
        reach=reach_of(KINDS),
        answers="`content`, `total_bytes`, `range`, `next?`",
        bounds=f"{READ_LIMIT // 1024} KB an answer; text files up to {TEXT_LIMIT // 2**20} MiB, any size in bytes",
    )


def _lines(at: Place, arguments: Mapping[str, Any]) -> Output:
    data = load(at)
    _only_text(at, data[:SAMPLE], len(data))
    lines = io.BytesIO(data).readlines()
    first = max(arguments.get("offset", 1), 1)
    if first > max(len(lines), 1):
        raise ToolFailure(f"offset: {at.shown} has {len(lines)} lines", kind="invalid")
    wanted = lines[first - 1 : first - 1 + arguments.get("limit", len(lines))]
    shown = _fitting(wanted)
    last = first - 1 + len(shown)
    if wanted and not shown:
        return _bytes(at, {"offset": sum(map(len, lines[: first - 1]))})  # one line that is too long by itself
    where = {"unit": "lines", "first": min(first, last), "last": last, "total": len(lines)}
    answer = _answer(b"".join(shown), len(data), where)
    if last < len(lines):
        answer["next"] = {"unit": "lines", "offset": last + 1}
    return _output(answer, at, cut=len(shown) < len(wanted))


def _fitting(lines: list[bytes]) -> list[bytes]:
    size = 0
    for count, line in enumerate(lines):
        size += len(line)
        if size > READ_LIMIT:
            return lines[:count]
    return lines


def _bytes(at: Place, arguments: Mapping[str, Any]) -> Output:
    start = arguments.get("offset", 0)
    wanted = arguments.get("limit", READ_LIMIT + 1)
    with at.open() as file:
        sample = file.read(SAMPLE)
        total = file.seek(0, 2)
        file.seek(start)
        piece = file.read(min(wanted, READ_LIMIT))
    _only_text(at, sample + piece, total)
    if start > total:
        raise ToolFailure(f"offset: {at.shown} has {total} bytes", kind="invalid")
    if start + len(piece) < total:
        piece = piece[: _boundary(piece)]
    end = start + len(piece)
    answer = _answer(piece, total, {"unit": "bytes", "first": start, "last": end, "total": total})
    if end < total:
        answer["next"] = {"unit": "bytes", "offset": end}
    return _output(answer, at, cut=end < total and wanted > READ_LIMIT)


def _boundary(piece: bytes) -> int:
    """Where the last whole character ends; all of it when no boundary is near."""
    for back in range(1, min(4, len(piece) - 1) + 1):
        byte = piece[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(piece) - back if back < width else len(piece)
    return len(piece)


def _only_text(at: Place, sample: bytes, size: int) -> None:
    if b"\0" in sample:
        advice = "read shows text only. Use bash with a program for its format"
        raise ToolFailure(f"{at.shown} is a binary file of {size} bytes; {advice}", kind="invalid")


def _answer(content: bytes, total: int, shown: dict[str, Any]) -> dict[str, Any]:
    text = content.decode(errors="replace")
    answer: dict[str, Any] = {"content": text, "total_bytes": total, "range": shown}
    if "\ufffd" in text and text.encode() != content:
        answer["note"] = "not all of it is UTF-8; \ufffd stands for what is not"
    return answer


def _output(answer: dict[str, Any], at: Place, *, cut: bool) -> Output:
    if cut:
        answer["head"] = answer["content"][:HEAD]
    return Output(answer, truncated=cut, output_path=str(at.path) if cut else None, sized=True)
