"""The dependencies that a plugin declares in its own file, as PEP 723 describes it:

# /// script
# dependencies = ["python-slugify>=8"]
# ///
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, cast

from ...errors import ToolFailure

MAX_REQUIREMENTS = 30
MAX_REQUIREMENT_LENGTH = 200
MAX_BLOCK_LENGTH = 8 * 1024
"""Characters of the block. Reading TOML can cost the square of its length."""
_BEGIN = re.compile(r"# /// [a-zA-Z0-9-]{1,64}")
_END = "# ///"
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)"
    r"\s*+(?:\[[A-Za-z0-9._,\s-]{1,100}\]\s*+)?"
    r"(?:(?:===|~=|==|!=|<=|>=|<|>)\s*+[A-Za-z0-9.*+!_-]{1,50}+\s*+,?\s*+){0,5}"
    r"(?:;[A-Za-z0-9_.<>=!~'\"()\s-]{1,200})?"
)
"""A name, extras, versions and a marker (PEP 508). Addresses are not taken: the operator decides where packages come
from, and an address could carry data out. No two of its quantifiers can share a run of characters: a pattern holds the
interpreter, and with it all sessions."""


def requirements_of(code: bytes, file: str) -> tuple[str, ...]:
    """Return the requirements that a file declares, sorted. The time grows with the length of the file and no faster.
    Raises ToolFailure that names the fault."""
    if b"# /// script" not in code:
        return ()
    blocks = list(_blocks(code.decode(errors="replace").split("\n"), "# /// script"))
    if not blocks:
        raise _invalid_error(file, "the block `# /// script` has no end `# ///`")
    if len(blocks) > 1:
        raise _invalid_error(file, "there is more than one block `# /// script`")
    text = "\n".join(line[2:] for line in blocks[0])
    if len(text) > MAX_BLOCK_LENGTH:
        raise _invalid_error(file, f"the block `# /// script` is longer than {MAX_BLOCK_LENGTH:,} characters")
    try:
        metadata = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or a number with too many digits
        raise _invalid_error(file, f"the block `# /// script` is not TOML: {error}") from None
    return _check_requirements(metadata.get("dependencies", []), file)


def _blocks(lines: Iterable[str], begin: str) -> Iterator[list[str]]:
    """Yield the lines of each block that has this first line. A block is a part of one run of comment lines, and the
    last line `# ///` of the run ends it."""
    for is_comment, group in groupby(lines, lambda line: line.startswith("# ") or line.rstrip("\r") == "#"):
        run = [line.rstrip("\r") for line in group] if is_comment else []
        first = next((at for at, line in enumerate(run) if _BEGIN.fullmatch(line)), None)
        last = next((at for at in range(len(run) - 1, -1, -1) if run[at] == _END), -1)
        if first is not None and first + 1 < last and run[first] == begin:
            yield run[first + 1 : last]


def _check_requirements(values: Any, file: str) -> tuple[str, ...]:
    if not isinstance(values, list) or len(cast("list[Any]", values)) > MAX_REQUIREMENTS:
        raise _invalid_error(file, f"dependencies must be a list of at most {MAX_REQUIREMENTS} texts")
    for one in cast("list[Any]", values):
        if not isinstance(one, str):
            raise _invalid_error(file, f"dependencies: must be texts, and one is of the type {type(one).__name__}")
        if len(one) > MAX_REQUIREMENT_LENGTH or not _REQUIREMENT.fullmatch(one.strip()):
            raise _invalid_error(
                file,
                f"dependencies: {one[:100]!r} must be a name with versions, such as 'python-slugify>=8',"
                f" of at most {MAX_REQUIREMENT_LENGTH} characters",
            )
    return tuple(sorted({one.strip() for one in cast("list[str]", values)}))


def _invalid_error(file: str, fault: str) -> ToolFailure:
    return ToolFailure(f"{file}: {fault}", kind="invalid")
