"""The file of contexts: the hosts and agents that a person works with, and which of them is current.

The file may hold tokens, so only its owner can read it. It is replaced as a whole, so a process that dies leaves the
old one or the new one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from .errors import CliError, UsageError
from .private_file import private, replace_private_file

Kind = Literal["host", "agent"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Context:
    """A host or an agent under a name. Its token is here or in a file of its own."""

    name: str
    url: str
    kind: Kind
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    workspace: str | None = None
    """The one that is meant without `-w`."""
    user: str | None = None
    """For whom the operator speaks; a token for people has its own."""
    data_dir: str | None = None
    """The data folder of a host on this machine. The token goes to the host that has locked it, and to no other."""
    folders: dict[str, str] = field(default_factory=dict[str, str])
    """The workspace that is meant in a folder of this machine and below it: its agent works there."""

    def workspace_in(self, folder: Path) -> str | None:
        """Return the workspace that is meant in the folder, without `-w`."""
        found = (self.folders.get(str(one)) for one in (folder, *folder.parents))
        return next(filter(None, found), self.workspace)

    def elsewhere(self, folder: Path) -> str | None:
        """Return where the agent works that is meant in the folder, if that is another folder and known."""
        if any(str(one) in self.folders for one in (folder, *folder.parents)):
            return None
        return next((path for path, workspace in self.folders.items() if workspace == self.workspace), None)

    def forgetting(self, workspace: str) -> Context:
        """Return the context without a workspace that is deleted."""
        folders = {path: one for path, one in self.folders.items() if one != workspace}
        return replace(self, folders=folders, workspace=None if self.workspace == workspace else self.workspace)


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts, and the name of the current one."""

    contexts: tuple[Context, ...] = ()
    current: str | None = None

    def get(self, name: str) -> Context:
        """Return the context of that name. Raises UsageError."""
        for context in self.contexts:
            if context.name == name:
                return context
        known = ", ".join(one.name for one in self.contexts) or "none"
        raise UsageError(f"there is no context {name!r} (there is: {known})", "add it with `agent context add`")

    def with_context(self, context: Context, *, use: bool = False) -> Contexts:
        """Add the context, in the place of one of the same name; the first becomes the current one. Raises
        UsageError."""
        if not NAME.fullmatch(context.name):
            raise UsageError(f"name: {context.name!r} must be letters, digits, `.`, `_` and `-`, at most 64")
        others = tuple(one for one in self.contexts if one.name != context.name)
        return Contexts((*others, context), context.name if use or self.current is None else self.current)

    def without(self, name: str) -> Contexts:
        """Remove a context. Raises UsageError."""
        gone = self.get(name)
        left = tuple(one for one in self.contexts if one is not gone)
        return Contexts(left, None if self.current == name else self.current)

    def forgetting(self, url: str, workspace: str) -> Contexts:
        """Have no context of that host mean a workspace that is deleted."""
        left = (one.forgetting(workspace) if one.url == url else one for one in self.contexts)
        return replace(self, contexts=tuple(left))

    def using(self, name: str) -> Contexts:
        """Make a context the current one. Raises UsageError."""
        return replace(self, current=self.get(name).name)


def contexts_path() -> Path:
    """Return the path of the file: `~/.config/agent/contexts.json`, or below XDG_CONFIG_HOME."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "agent" / "contexts.json"


def load_contexts() -> Contexts:
    """Read the file; no file means no contexts. Raises CliError that names the fault."""
    path = contexts_path()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise CliError(f"{path}: other users can read it, and it may hold tokens", f"chmod 600 {path}")
            data = file.read()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise CliError(f"{path}: cannot be read: {error.strerror}") from error
    return _parsed(path, data)


def _parsed(path: Path, data: bytes) -> Contexts:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Contexts).validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, first["loc"]))
        fault = f"{at}: {first['msg']}" if at else first["msg"]
        raise CliError(f"{path}: {fault}", "mend it or move it away, then `agent context add`") from error


def change_contexts(change: Callable[[Contexts], Contexts]) -> Contexts:
    """Read the file, change what it says, and write it; other processes wait meanwhile. Raises CliError."""
    path = contexts_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        with open(path.with_suffix(".lock"), "wb", opener=private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            changed = change(load_contexts())
            _replace(path, changed)
    except OSError as error:
        raise CliError(f"{path}: cannot be written: {error.strerror}") from error
    return changed


def _replace(path: Path, contexts: Contexts) -> None:
    known = [
        {name: value for name, value in asdict(one).items() if value not in (None, {})} for one in contexts.contexts
    ]
    document = {"current": contexts.current, "contexts": known}
    replace_private_file(path, json.dumps(document, indent=2) + "\n")
