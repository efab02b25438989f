"""Fit a tool's data into the envelope: valid JSON, and never too large for a conversation."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import ToolFailure
from ...sandbox import OUTPUT_LIMIT, SPILL_LIMIT, spill_fault
from ...workspace import create_output_file
from .contract import Output

RESULT_LIMIT = OUTPUT_LIMIT
"""Maximum bytes of JSON in a result, unless its tool limits results itself."""
SPILLED_HEAD_LENGTH = 32 * 1024
"""Characters of an oversized result that stay in the envelope."""
HEAD_LENGTH = 2048
"""Characters repeated in `head` for a truncated result that its tool has limited itself."""
MAX_DEPTH = 100


async def fit_output(result: Any, limit: int, scratch: Path) -> Output:
    """Return the result if it fits or is already bounded, else its head and the path of a file with all of it.

    `limit` is in bytes of JSON. Raises ToolFailure if the result is not JSON.
    """
    output = result if isinstance(result, Output) else Output(result)
    text = _serialize(output.data)
    size = len(text.encode(errors="replace"))
    if size <= limit or output.already_bounded:
        return output if text.isascii() else replace(output, data=_clean_data(output.data, text))
    spill = await asyncio.to_thread(_spill_data, output.data, scratch)
    whole = output.data if isinstance(output.data, str) else text
    data = {"head": _replace_surrogates(whole[:SPILLED_HEAD_LENGTH]), "total_bytes": size, **spill.note}
    return Output(
        data, truncated=True, output_path=spill.path, metadata=output.metadata, added_tools=output.added_tools
    )


def _serialize(data: Any) -> str:
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailure(f"the result is not JSON: {error}") from error
    # Later serializers run deeper in the stack and would fail at a depth that just works here.
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise ToolFailure(f"the result is nested more than {MAX_DEPTH} levels deep")
    return text


def _depth(data: Any) -> int:
    level = [data]
    depth = 0
    while level:
        depth += 1
        level = [child for value in level for child in _children(value)]
    return depth


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return list(value) if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _clean_data(data: Any, text: str) -> Any:
    """Return the data without lone surrogates, which neither the database nor clients accept."""
    clean = _replace_surrogates(text)
    return data if clean == text else json.loads(clean)  # noqa: TID251  our own text


def _replace_surrogates(text: str) -> str:
    return text.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True)
class Spill:
    """Where the whole of a result is kept."""

    path: str | None
    """The file for the `read` tool; None if it could not be written."""
    fault: str | None = None
    """Why not."""

    @property
    def note(self) -> dict[str, str]:
        """The fault as a field of a result, if there is one."""
        return {"note": self.fault} if self.fault else {}


def spill_text(text: str, scratch: Path, suffix: str = ".txt") -> Spill:
    """Write a text to a file for the `read` tool, up to a limit. The call has run: a disk that is full or cannot be
    written does not cost its result."""
    name: str | None = None
    try:
        with create_output_file(scratch, suffix) as file:
            name = file.name
            file.write(text.encode(errors="replace")[:SPILL_LIMIT])
        return Spill(name)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()
        return Spill(None, spill_fault(error))


def _spill_data(data: Any, scratch: Path) -> Spill:
    """Write the whole result to a file for the `read` tool: text as it is, anything else as indented JSON."""
    if isinstance(data, str):
        return spill_text(data, scratch)
    return spill_text(json.dumps(data, ensure_ascii=False, indent=1), scratch, ".json")
