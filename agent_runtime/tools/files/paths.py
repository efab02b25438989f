"""What read, write and edit have in common: allowed paths, and one bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from agent_common.protocol import Folders, RequirementSet
from agent_common.protocol.authority import Access

from ...errors import ToolFailure
from ...ports import ToolContext
from ...workspace import (
    AllowedRoots,
    BackupCopy,
    FileBackups,
    SafePath,
    folder_of_copies,
    is_instructions,
    originals,
)
from ..core.contract import AccessRequest, DescribeAccess

Kind = Literal["read", "write"]

TEXT_LIMIT = 10 * 1024 * 1024
"""Bytes of a file that read, write and edit handle as text. Spilled output is never larger."""

PATH_PARAMETER = {"type": "string", "minLength": 1, "description": "A file; a relative path starts in the workspace"}


def resolve_path(path: str, context: ToolContext, field: str = "path") -> SafePath:
    """Where a path leads. Raises ToolFailure when that is outside of the workspace and the scratch folder."""
    return AllowedRoots(context.workspace, context.scratch).resolve(path, field)


def describe_path_access(kinds: Sequence[Kind], default: str | None = None) -> DescribeAccess:
    """The reach of a tool with a `path`: that file or folder, to be read or written."""

    async def reach(arguments: Mapping[str, Any], context: ToolContext) -> AccessRequest:
        at = resolve_path(arguments["path"] if default is None else arguments.get("path", default), context)
        _check_protected(at, kinds, context)
        folders = Folders(**{kind: [str(at.path)] for kind in kinds})
        return AccessRequest(
            (at.shown,),
            (path_aliases(str(at.path), context),),
            requires=RequirementSet(fs=folders),
            asks=_question(at, kinds, context),
            suggested_patterns=("*",),
        )

    return reach


def _question(safe_path: SafePath, kinds: Sequence[Kind], context: ToolContext) -> str:
    """Return why a person is asked before a write: what the web or a server has said must not become what all sessions
    are told."""
    below = safe_path.path.parts[len(context.workspace.parts) :]
    inside = safe_path.root == context.workspace and is_instructions(below)
    if "write" not in kinds or not inside or not context.outside_text.seen:
        return ""
    return f"{safe_path.shown}: all sessions are told what it says, and this conversation holds text from outside"


def path_aliases(path: str, context: ToolContext) -> tuple[str, ...]:
    """How else people may write the path in a rule that denies it: absolute, with the variables of grants, or for any
    depth as in `**/name`; and for a copy that the runtime keeps, all names of the file that it was made of."""
    copied = originals(path, context.workspace, context.skills)
    own = _path_forms(path, context)
    return (*own, *(name for one in copied for name in _path_forms(one, context))) if copied else own


def _path_forms(path: str, context: ToolContext) -> tuple[str, ...]:
    found = [path]
    for name, folder in context.variables.items():
        if path.startswith(f"{folder}/"):
            below = path[len(folder) + 1 :]
            found += [f"{{{name}}}/{below}", *((below, f"./{below}") if name == "workspace" else ())]
    return tuple(found)


def _check_protected(safe_path: SafePath, kinds: Sequence[Kind], context: ToolContext) -> None:
    """Raises ToolFailure where a copy would be changed that the runtime keeps, or a file from which programs take
    commands: a rule that allows `git status` must not allow any command to an agent that may write files."""
    if "write" not in kinds:
        return
    below = safe_path.path.parts[len(safe_path.root.parts) :]
    folder = folder_of_copies(below) if safe_path.root == context.workspace else None
    if folder is not None:
        raise ToolFailure(f"{safe_path.shown}: the runtime itself keeps {folder}; it can only be read", kind="denied")
    if ".git" in below:
        raise ToolFailure(
            f"{safe_path.shown}: git takes commands from its own files; change them with git", kind="denied"
        )
    if safe_path.root == context.scratch and below and below[0].startswith("."):
        raise ToolFailure(
            f"{safe_path.shown}: scratch is the home folder of commands, and programs take settings from hidden files "
            "there; take a name without a leading dot",
            kind="denied",
        )


def has_hidden_part(path: str, context: ToolContext) -> bool:
    """Tell whether programs may take commands from a file: it, or a folder on its way, is hidden."""
    for root in (context.workspace, context.scratch):
        path = path.removeprefix(f"{root}/")
    return any(part.startswith(".") and part not in {".", ".."} for part in path.split("/"))


def authorize_path(
    tool: str, kinds: Sequence[Kind], path: str, context: ToolContext, more: tuple[str, ...] = ()
) -> SafePath:
    """The place at the moment of its use: a link that was put in its way since the gate looked leads nowhere that the
    agent may not go. `more`: what else a person has approved with it. Raises ToolFailure."""
    at = resolve_path(path, context)
    _check_protected(at, kinds, context)
    action = context.authority.decide(_path_access(tool, kinds, at, context)).action
    refused = action == "deny" or (action == "ask" and not context.is_approved_for((*more, at.shown)))
    if refused or context.authority.missing_grant(_folders(kinds, at), context.variables) is not None:
        raise _refusal(kinds, at, context)
    return at


def question_about_file(tool: str, kinds: Sequence[Kind], at: SafePath, context: ToolContext) -> str:
    """Return why a person is asked before another tool reads or writes a file as `tool` does; empty if nobody is. Text
    that it writes is from outside. Raises ToolFailure if `tool` may not."""
    _check_protected(at, kinds, context)
    action = context.authority.decide(_path_access(tool, kinds, at, context)).action
    if action == "deny":
        raise _refusal(kinds, at, context)
    if action == "ask":
        return f"{at.shown}: no rule allows {tool} to {' or '.join(kinds)} it unasked"
    below = at.path.parts[len(context.workspace.parts) :]
    if "write" in kinds and at.root == context.workspace and is_instructions(below):
        return f"{at.shown}: all sessions are told what it says, and this is text from outside"
    return ""


def _path_access(tool: str, kinds: Sequence[Kind], at: SafePath, context: ToolContext) -> Access:
    capabilities = tuple(f"fs.{kind}" for kind in kinds)
    return Access(tool, (), capabilities, (), (at.shown,), (path_aliases(str(at.path), context),))


def _folders(kinds: Sequence[Kind], at: SafePath) -> RequirementSet:
    return RequirementSet(fs=Folders(**{kind: [str(at.path)] for kind in kinds}))


def _refusal(kinds: Sequence[Kind], at: SafePath, context: ToolContext) -> ToolFailure:
    return ToolFailure(f"{at.shown}: agent {context.agent} may not {' or '.join(kinds)} it", kind="denied")


def denies_reading(path: str, context: ToolContext) -> bool:
    """Tell whether a rule denies a file to `fs.read`, and so to tools that read it without being named one by one."""
    shown = path.removeprefix(f"{context.workspace}/")
    decision = context.authority.decide(Access("", (), ("fs.read",), (), (shown,), (path_aliases(path, context),)))
    return decision.action == "deny" and decision.rule is not None and decision.rule.permission == "fs.read"


def backing_up(
    backups: FileBackups, safe_path: SafePath, data: bytes | None, context: ToolContext
) -> AbstractContextManager[BackupCopy]:
    """Backs up what the block replaces, by `data` if that is known. Scratch is for what nobody will miss."""
    return backups.backing_up(safe_path, data) if safe_path.root == context.workspace else nullcontext(BackupCopy())


def too_large_error(shown: str, size: int) -> ToolFailure:
    limit = TEXT_LIMIT // 2**20
    advice = f"text is handled up to {limit} MiB. Use grep, or bash with head, tail or sed"
    return ToolFailure(f"{shown} is {size / 2**20:.1f} MiB; {advice}", kind="invalid")


def read_bounded(safe_path: SafePath) -> bytes:
    """The whole file, if it is within the bound."""
    with safe_path.open() as file:
        data = file.read(TEXT_LIMIT + 1)
        if len(data) > TEXT_LIMIT:
            raise too_large_error(safe_path.shown, file.seek(0, 2))
        return data
