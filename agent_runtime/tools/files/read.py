"""`read`: a piece of a text file."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...workspace import PathLocks, SafePath
from ..core.contract import READ_REQUIREMENTS, Output, Tool
from ..core.envelope import HEAD_LENGTH
from .paths import PATH_PARAMETER, TEXT_LIMIT, Kind, authorize_path, describe_path_access, resolve_path, too_large_error
from .text_encoding import HEAD_SIZE, utf16_of

READ_LIMIT = 200 * 1024
"""Bytes of content in one answer."""
BLOCK_SIZE = 64 * 1024
"""Bytes of a file that are held at a time while its lines are counted."""
SAMPLE_SIZE = 8192
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
        "path": PATH_PARAMETER,
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
        piece = _read_bytes if arguments.get("unit") == "bytes" else _read_lines
        async with locks.async_lock(
            resolve_path(arguments["path"], context).path
        ):  # it sees what was written before it was called
            at = authorize_path("read", KINDS, arguments["path"], context)
            return await asyncio.to_thread(piece, at, arguments)

    spec = ToolSpec("read", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        READ_REQUIREMENTS,
        describe_access=describe_path_access(KINDS),
        result_doc="`content`, `total_bytes`, `range`, `next?`",
        limits_doc=f"{READ_LIMIT // 1024} KB an answer; text files up to {TEXT_LIMIT // 2**20} MiB, any size in bytes",
    )


def _read_lines(at: SafePath, arguments: Mapping[str, Any]) -> Output:
    first = max(arguments.get("offset", 1), 1)
    with _open_as_utf8(at) as (file, whole):
        begin, total, size = _scan_lines(file, whole, first, at)
        if first > max(total, 1):
            raise ToolFailure(f"offset: {at.shown} has {total} lines", kind="invalid")
        file.seek(begin)
        piece = file.read(READ_LIMIT)
    if begin + len(piece) < size:
        piece = piece[: piece.rfind(b"\n") + 1]
    wanted = min(arguments.get("limit", total), total - first + 1) if total else 0
    count = _count_lines(piece)
    if wanted and not count:
        return _read_bytes(at, {"offset": begin})  # one line that is too long by itself
    if count > wanted:
        piece = piece[: _offset_after_lines(piece, wanted)]
        count = wanted
    last = first - 1 + count
    where = {"unit": "lines", "first": min(first, last), "last": last, "total": total}
    answer = _answer_data(piece, size, where)
    if last < total:
        answer["next"] = {"unit": "lines", "offset": last + 1}
    return _output(answer, at, cut=count < wanted)


def _scan_lines(file: BinaryIO, whole: int, first: int, at: SafePath) -> tuple[int, int, int]:
    """Where line `first` begins, and how many lines and bytes the file has. It holds one block at a time: a list of
    short lines takes thirty times their bytes."""
    if whole > TEXT_LIMIT:
        raise too_large_error(at.shown, whole)
    begin = breaks = size = 0
    end = b"\n"
    while size < TEXT_LIMIT and (block := file.read(min(BLOCK_SIZE, TEXT_LIMIT - size))):
        if size == 0:
            _reject_binary(at, block[:SAMPLE_SIZE], whole)
        found = block.count(b"\n")
        if breaks < first - 1 <= breaks + found:
            begin = size + _offset_after_lines(block, first - 1 - breaks)
        breaks = breaks + found
        size = size + len(block)
        end = block[-1:]
    return begin, breaks + (end != b"\n"), size


@contextmanager
def _open_as_utf8(at: SafePath) -> Generator[tuple[BinaryIO, int]]:
    """Open a file, one in UTF-16 as if it were in UTF-8, and yield it with its size in bytes. Raises ToolFailure."""
    with at.open() as file:
        size = os.fstat(file.fileno()).st_size
        encoding = utf16_of(file.read(HEAD_SIZE))
        file.seek(0)
        if encoding is None:
            yield file, size
            return
        if size > TEXT_LIMIT:
            raise too_large_error(at.shown, size)
        try:
            content = encoding.to_utf8(file.read(TEXT_LIMIT))
        except UnicodeDecodeError:
            raise ToolFailure(f"{at.shown} is not valid UTF-16, as which it is marked", kind="invalid") from None
        yield io.BytesIO(content), len(content)


def _count_lines(piece: bytes) -> int:
    return piece.count(b"\n") + (not piece.endswith(b"\n") if piece else 0)


def _offset_after_lines(data: bytes, lines: int) -> int:
    """Where the line behind so many lines begins."""
    at = 0
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
    return at


def _read_bytes(at: SafePath, arguments: Mapping[str, Any]) -> Output:
    start = arguments.get("offset", 0)
    wanted = arguments.get("limit", READ_LIMIT + 1)
    with _open_as_utf8(at) as (file, _):
        sample = file.read(SAMPLE_SIZE)
        total = file.seek(0, 2)
        file.seek(start)
        piece = file.read(min(wanted, READ_LIMIT))
    _reject_binary(at, sample + piece, total)
    if start > total:
        raise ToolFailure(f"offset: {at.shown} has {total} bytes", kind="invalid")
    if start + len(piece) < total:
        piece = piece[: _character_boundary(piece)]
    end = start + len(piece)
    answer = _answer_data(piece, total, {"unit": "bytes", "first": start, "last": end, "total": total})
    if end < total:
        answer["next"] = {"unit": "bytes", "offset": end}
    return _output(answer, at, cut=end < total and wanted > READ_LIMIT)


def _character_boundary(piece: bytes) -> int:
    """Where the last whole character ends; all of it when no boundary is near."""
    for back in range(1, min(4, len(piece) - 1) + 1):
        byte = piece[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(piece) - back if back < width else len(piece)
    return len(piece)


def _reject_binary(at: SafePath, sample: bytes, size: int) -> None:
    if b"\0" in sample:
        advice = "read shows text only. Use bash with a program for its format"
        raise ToolFailure(f"{at.shown} is a binary file of {size} bytes; {advice}", kind="invalid")


def _answer_data(content: bytes, total: int, shown: dict[str, Any]) -> dict[str, Any]:
    text = content.decode(errors="replace")
    answer: dict[str, Any] = {"content": text, "total_bytes": total, "range": shown}
    if "\ufffd" in text and text.encode() != content:
        answer["note"] = "not all of it is UTF-8; \ufffd stands for what is not"
    return answer


def _output(answer: dict[str, Any], at: SafePath, *, cut: bool) -> Output:
    if cut:
        answer["head"] = answer["content"][:HEAD_LENGTH]
    return Output(answer, truncated=cut, output_path=str(at.path) if cut else None, already_bounded=True)
