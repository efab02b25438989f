"""The dependencies that a plugin declares in its own file, as PEP 723 describes it:

# /// script
# dependencies = ["python-slugify>=8"]
# ///
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

from ...errors import ToolFailure

MAX_REQUIREMENTS = 30
_BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?)"
    r"\s*(?:\[[A-Za-z0-9._,\s-]{1,100}\])?"
    r"\s*(?:(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]{1,50}\s*,?\s*){0,5}"
    r"(?:;[A-Za-z0-9_.<>=!~'\"()\s-]{1,200})?"
)
"""A name, extras, versions and a marker (PEP 508). Addresses are not taken: the operator decides where packages come
from, and an address could carry data out."""


def requirements_of(code: bytes, file: str) -> tuple[str, ...]:
    """Return the requirements that a file declares, sorted. Raises ToolFailure that names the fault."""
    if b"# /// script" not in code:
        return ()
    blocks = [found for found in _BLOCK.finditer(code.decode(errors="replace")) if found["type"] == "script"]
    if not blocks:
        raise _invalid_error(file, "the block `# /// script` has no end `# ///`")
    if len(blocks) > 1:
        raise _invalid_error(file, "there is more than one block `# /// script`")
    lines = blocks[0]["content"].splitlines()
    try:
        metadata = tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
    except tomllib.TOMLDecodeError as error:
        raise _invalid_error(file, f"the block `# /// script` is not TOML: {error}") from None
    return _check_requirements(metadata.get("dependencies", []), file)


def _check_requirements(values: Any, file: str) -> tuple[str, ...]:
    if not isinstance(values, list) or len(cast("list[Any]", values)) > MAX_REQUIREMENTS:
        raise _invalid_error(file, f"dependencies must be a list of at most {MAX_REQUIREMENTS} texts")
    for one in cast("list[Any]", values):
        if not isinstance(one, str) or not _REQUIREMENT.fullmatch(one.strip()):
            raise _invalid_error(
                file, f"dependencies: {str(one)[:100]!r} must be a name with versions, such as 'python-slugify>=8'"
            )
    return tuple(sorted({one.strip() for one in cast("list[str]", values)}))


def _invalid_error(file: str, fault: str) -> ToolFailure:
    return ToolFailure(f"{file}: {fault}", kind="invalid")
