"""What the demo model does with a message that is no task it knows."""

from __future__ import annotations

import re

from ...json_access import as_list, as_object
from .replay import Action, Script

NOTE = "demo model"
_QUOTED = 500  # characters of the user's message or of a command's output that are repeated
_RUN = re.compile(r"^[ \t]*run:(.*\S.*)$", re.IGNORECASE | re.MULTILINE)
_LIST = re.compile(r"\blist (?:the |my |all )?files\b", re.IGNORECASE)


def chat(text: str) -> Script:
    """Obeys `run: COMMAND` and `list files`; says what it is to anything else."""
    if command := _RUN.search(text):
        return _run(command[1].strip())
    if _LIST.search(text):
        return _list_files()
    return _introduce(text)


def _run(command: str) -> Script:
    arguments = {"command": command, "description": "Run what the user asked for"}
    ran = yield Action("bash", arguments, f"[{NOTE}] I run `{command}`.")
    if ran.error:
        return f"[{NOTE}] `{command}` could not be run: {ran.error}"
    ended = "was stopped at its deadline" if ran.get("timed_out") else f"ended with {ran.get('exit_code')}"
    printed = f"{ran.get('stdout', '')}{ran.get('stderr', '')}".strip()
    return f"[{NOTE}] `{command}` {ended}" + (f" and printed:\n\n{_short(printed)}" if printed else " without output.")


def _list_files() -> Script:
    found = yield Action("glob", {"pattern": "**/*"}, f"[{NOTE}] I look for files.")
    if found.error:
        return f"[{NOTE}] The files could not be listed: {found.error}"
    names = paths(found.get("entries", []))
    return f"[{NOTE}] " + (f"There are {len(names)} files:\n\n" + "\n".join(names) if names else "There are no files.")


def _introduce(text: str) -> Script:
    yield from ()
    return (
        f"[{NOTE}] I am a demo model: I follow a script and do not think. You said: {_short(text) or 'nothing'!r}. "
        "I can run a command (`run: ls`), list files (`list files`), and write the report of the example in "
        "examples/sales. For answers that mean something, start the host with OPENAI_API_KEY or OPENAI_BASE_URL set."
    )


def paths(entries: object) -> list[str]:
    """The paths in the entries of a glob, which are texts or objects with a `path`."""
    named = [as_object(entry).get("path", entry) for entry in as_list(entries)]
    return [name for name in named if isinstance(name, str)]


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED else text[:_QUOTED] + " …"
