"""Find files with `glob` and lines with `grep`. A confined process, `search_worker.py`, does the search."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_common.protocol.authority import Access

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...sandbox import Confinement, SandboxLimits, SandboxSpec
from ...workspace import SIGN_FORMS
from ..core.contract import READ_REQUIREMENTS, Output, Tool
from ..core.declaration import object_schema
from ..core.envelope import HEAD_LENGTH, spill_text
from .paths import Kind, authorize_path, describe_path_access, path_aliases
from .pattern_readings import escaped_choice
from .search_worker import MAX_FILE_BYTES, MAX_LINE_LENGTH, MORE_LEFT_OUT
from .text_forms import forms_in_pattern

GLOB_LIMIT = 1000
GREP_LIMIT = 200
GLOB_SPILL_LIMIT = 10_000
GREP_SPILL_LIMIT = 2000
"""Results that are written to a file when there are more than an answer holds."""
SEARCH_SECONDS = 30.0
MAX_ROUNDS = 4
"""Searches for one answer."""
ANSWER_LIMIT = 4 * 1024 * 1024
"""Bytes of the worker's answer; within the limits above it cannot be larger."""
WORKER_PROGRAM = Path(__file__).with_name("search_worker.py")
KINDS: tuple[Kind, ...] = ("read",)

_EXCLUSION = re.compile(r"(?:^|,)\s*!")
_CHOICE = re.compile(r"[@+?*!]\([^()]*\|")
_RANGE = re.compile(r"\{-?\w{1,9}\.\.-?\w{1,9}(?:\.\.|\})")
LEFT_OUT_NOTE = "Folders named .backups, .git, .venv, node_modules and __pycache__ are left out unless you name them."
GLOB_DESCRIPTION = (
    "List files whose path fits a glob pattern: * within a name, ** across folders, {a,b} for choices, [ab] for "
    "characters, or for itself where a name is written so, such as [id]. A pattern "
    f"without a slash fits at any depth. At most {GLOB_LIMIT} entries, sorted; `truncated` says that there are more. "
    f"{LEFT_OUT_NOTE} Not for content (grep)."
)
GREP_DESCRIPTION = (
    "Find lines that match a regular expression, in one file or all files below a folder. "
    f"At most {GREP_LIMIT} matches; `truncated` says that there are more. "
    f"{LEFT_OUT_NOTE} `left_out` names what is not searched, such as binary files. "
    "Not for names (glob); to see more of a file, read it."
)
ESCAPED_CHOICE_NOTE = (
    r"\| is the character | here, and no line has it so. These lines match the choice: write | for that, and ( ) for a "
    "group."
)
FOLDER_PARAMETER = {"type": "string", "minLength": 1, "description": "The folder to search; default: the workspace"}


GLOB_PARAMETERS = object_schema(
    "pattern", pattern={"type": "string", "minLength": 1, "description": "Such as **/*.py"}, path=FOLDER_PARAMETER
)
GREP_PARAMETERS = object_schema(
    "pattern",
    pattern={"type": "string", "minLength": 1, "description": "A regular expression; (?i) in front ignores case"},
    path={**FOLDER_PARAMETER, "description": "A file, or a folder to search; default: the workspace"},
    include={"type": "string", "minLength": 1, "description": "Only files that fit this glob pattern, such as *.py"},
)


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Run searches, each in a confined process of its own."""

    confinement: Confinement
    program: Path = WORKER_PROGRAM
    seconds: float = SEARCH_SECONDS

    async def find(self, request: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the worker's answer to a request. Raises ToolFailure."""
        done = await self.confinement.run(
            (sys.executable, "-I", "-S", str(self.program)),
            SandboxSpec(
                workdir=context.workspace,
                readable=(context.workspace, context.scratch),
                limits=SandboxLimits(processes=128),
            ),
            timeout=self.seconds,
            stdin=json.dumps({**request, "sign_forms": SIGN_FORMS}).encode(),
            output_limit=ANSWER_LIMIT,
            helper=True,
        )
        if done.timed_out:
            seconds = f"{self.seconds:g} s"
            raise ToolFailure(f"the search took longer than {seconds}; narrow the path or the pattern", kind="invalid")
        if done.exit_code != 0:
            raise ToolFailure(f"the search ended with {done.exit_code}: {done.stderr.strip()[-300:]}")
        found: dict[str, Any] = json.loads(done.stdout)  # noqa: TID251  of our own helper
        if "fault" in found:
            raise ToolFailure(found["fault"], kind=found["kind"])
        return found


def glob_tool(finder: FileSearch) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        root = authorize_path("glob", KINDS, arguments.get("path", "."), context).path
        if not root.is_dir():
            raise ToolFailure("path: is not a folder; look into its parent", kind="invalid")
        pattern = _relative_pattern(arguments["pattern"], root, "pattern")
        request = {"kind": "glob", "root": str(root), "pattern": pattern, "limit": GLOB_SPILL_LIMIT}
        found = await finder.find(request, context)
        named = [_display_name(root, entry, context) for entry in found["entries"]]
        visible = await asyncio.to_thread(_visible_names, "glob", named, context)
        entries = [name for name in named if name in visible]
        _filter_left_out("glob", found, root, context)
        return await _output({**found, "entries": entries[:GLOB_LIMIT]}, entries, GLOB_LIMIT, context)

    spec = ToolSpec("glob", GLOB_DESCRIPTION, GLOB_PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        READ_REQUIREMENTS,
        describe_access=describe_path_access(KINDS, "."),
        result_doc="`entries`, `truncated`, `left_out?`",
        limits_doc=f"{GLOB_LIMIT} entries",
    )


def grep_tool(finder: FileSearch) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        at = authorize_path("grep", KINDS, arguments.get("path", "."), context).path
        root, only = (at, None) if at.is_dir() else (at.parent, at.name)
        if only is not None and not at.is_file():
            raise ToolFailure("path: there is no such file or folder; look for it with glob", kind="invalid")
        include = _relative_pattern(arguments.get("include", "**"), root, "include")
        request = {"kind": "grep", "root": str(root), "only": only, "include": include, "limit": GREP_SPILL_LIMIT}
        pattern = arguments["pattern"]
        found = await _grep(finder, {**request, "pattern": forms_in_pattern(pattern)}, root, context)
        if not found["matches"] and (choice := escaped_choice(pattern)) is not None:
            other = await _grep(finder, {**request, "pattern": forms_in_pattern(choice)}, root, context)
            if other["matches"]:
                found = other
                found["note"] = ESCAPED_CHOICE_NOTE
        matches = found["matches"]
        _filter_left_out("grep", found, root, context)
        lines = [f"{match['path']}:{match['line']}:{match['text']}" for match in matches]
        return await _output({**found, "matches": matches[:GREP_LIMIT]}, lines, GREP_LIMIT, context)

    return Tool(
        ToolSpec("grep", GREP_DESCRIPTION, GREP_PARAMETERS, read_only=True, idempotent=True),
        run,
        READ_REQUIREMENTS,
        describe_access=describe_path_access(KINDS, "."),
        result_doc="`matches` of `path`, `line`, `text`; `truncated`, `left_out?`, `note?`",
        limits_doc=(
            f"{GREP_LIMIT} matches, {MAX_LINE_LENGTH} characters a line, files up to {MAX_FILE_BYTES // 2**20} MiB"
        ),
    )


async def _grep(finder: FileSearch, request: dict[str, Any], root: Path, context: ToolContext) -> dict[str, Any]:
    """Search, and drop matches in files that are denied. Those must neither take the place of other matches nor show by
    `truncated` what they hold, so a search that was cut is repeated without those files."""
    hidden: set[str] = set()
    rounds = 0
    while True:
        found = await finder.find({**request, "excluded": sorted(hidden)}, context)
        names = {match["path"]: _display_name(root, match["path"], context) for match in found["matches"]}
        visible = await asyncio.to_thread(_visible_names, "grep", [*names.values()], context)
        denied = {path for path, name in names.items() if name not in visible}
        rounds += 1
        if not denied or not found["truncated"] or rounds == MAX_ROUNDS:
            matches = [{**one, "path": names[one["path"]]} for one in found["matches"] if one["path"] not in denied]
            return {**found, "matches": matches}
        hidden |= denied


def _filter_left_out(tool: str, found: dict[str, Any], root: Path, context: ToolContext) -> None:
    """Keep of `left_out`, each a name with the reason in brackets, the names that may be shown."""
    names = {one: _display_name(root, one.rpartition(" (")[0], context) for one in found.pop("left_out")}
    if kept := [one for one, name in names.items() if one == MORE_LEFT_OUT or _may_see(tool, name, context)]:
        found["left_out"] = kept


async def _output(data: dict[str, Any], lines: Sequence[str], limit: int, context: ToolContext) -> Output:
    """Return the answer; if it does not hold all that was found, name a file that holds more, one line each."""
    data["truncated"] = data["truncated"] or len(lines) > limit
    if not data["truncated"]:
        return Output(data)
    spill = await asyncio.to_thread(spill_text, "\n".join(lines), context.scratch)
    data |= {"head": "\n".join(lines)[:HEAD_LENGTH], **spill.note}
    return Output(data, truncated=True, output_path=spill.path, already_bounded=True)


def _visible_names(tool: str, names: Sequence[str], context: ToolContext) -> set[str]:
    """Return the names that may be shown. Checking thousands against the rules is slow: call it in a thread."""
    return {name for name in set(names) if _may_see(tool, name, context)}


def _may_see(tool: str, name: str, context: ToolContext) -> bool:
    """Tell whether the rules let a file of a searched folder be shown without asking a person about it."""
    path = name if name.startswith("/") else f"{context.workspace}/{name}"
    access = Access(tool, (), ("fs.read",), (), (name,), (path_aliases(path, context),))
    decision = context.authority.decide(access)
    return decision.action == "allow" or (decision.action == "ask" and (decision.rule is None or context.approved))


def _relative_pattern(pattern: str, root: Path, field: str) -> str:
    """Return the pattern relative to the root. Raises ToolFailure if it names a path elsewhere, or has what only other
    programs read: an empty answer would be wrong."""
    inside = pattern.removeprefix(f"{root}/")
    if inside.startswith("/") or ".." in inside.split("/"):
        raise ToolFailure(
            f"{field}: must stay below the folder that is searched; name another one with path", kind="invalid"
        )
    if _EXCLUSION.search(inside):
        raise ToolFailure(
            f"{field}: ! excludes nothing here; name what to search, or write \\! for a name", kind="invalid"
        )
    if _CHOICE.search(inside):
        raise ToolFailure(f"{field}: write {{a,b}} for a choice of texts, not @(a|b)", kind="invalid")
    if _RANGE.search(inside):
        raise ToolFailure(f"{field}: .. in braces is no range here; write {{1,2,3}}", kind="invalid")
    return inside


def _display_name(root: Path, entry: str, context: ToolContext) -> str:
    """Return the name of a found file, as `read` takes it."""
    path = root / entry
    return str(path.relative_to(context.workspace)) if path.is_relative_to(context.workspace) else str(path)
