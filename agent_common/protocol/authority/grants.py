"""Check requirement sets against grants (docs/reference/permissions.md#grants).

Both have the same shape. A tool's requirements ask for authority, and only a grant gives it. A call outside the grant
is an error, without a question to a person.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..permission import ArgPattern, Program, RequirementSet
from .globs import covers

VARIABLES = ("workspace", "ad-hoc", "user-data")
_VARIABLE = re.compile(r"\{([^{}]*)\}")


def requirements_fault(requires: RequirementSet) -> str | None:
    """Return why a requirement set is invalid, or None if it is valid."""
    for folder in (*requires.fs.read, *requires.fs.write):
        for name in _VARIABLE.findall(folder):
            if name not in VARIABLES:
                return f"there is no variable {{{name}}}; there are: {', '.join(VARIABLES)}"
        if re.search(r"[{}]", _VARIABLE.sub("", folder)):
            return f"{folder!r} has a brace that is not closed"
        if not folder.startswith(("/", "{")):
            return f"{folder!r} must be absolute or begin with a variable"
    return None


def missing_grant(grant: RequirementSet, wanted: RequirementSet, variables: Mapping[str, str]) -> str | None:
    """Return the first requirement that is not granted, as text for the model, or None if all are granted."""
    for kind, has, wants in (("read", grant.fs.read, wanted.fs.read), ("write", grant.fs.write, wanted.fs.write)):
        folders = [path for folder in has if (path := expand_variables(folder, variables)) is not None]
        for folder in wants:
            path = expand_variables(folder, variables)
            if path is None or not any(_is_inside(path, one) for one in folders):
                return f"{kind} {path or folder}"
    for host in wanted.net.hosts:
        if not any(covers(one.lower(), host.lower()) for one in grant.net.hosts):
            return f"reach {host}"
    for program in wanted.shell:
        if not any(_covers_program(one, program) for one in grant.shell):
            return f"run {_shown(program)}"
    for capability in wanted.capabilities:
        if not any(covers(one, capability) for one in grant.capabilities):
            return f"use {capability}"
    return None


def expand_variables(folder: str, variables: Mapping[str, str]) -> str | None:
    """Return the folder with its variables replaced, or None if one has no value; such a folder grants nothing."""
    if not all(variables.get(name) for name in _VARIABLE.findall(folder)):
        return None
    return _VARIABLE.sub(lambda found: variables[found[1]], folder)


def _is_inside(path: str, folder: str) -> bool:
    return ".." not in path.split("/") and f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _covers_program(wide: Program, narrow: Program) -> bool:
    return _covers_word(wide.cmd, narrow.cmd) and _covers_words(wide.args, narrow.args)


def _covers_words(wide: Sequence[str | ArgPattern], narrow: Sequence[str | ArgPattern]) -> bool:
    for at, word in enumerate(narrow):
        if at >= len(wide):
            return False
        if _is_rest(wide[at]):
            return True
        if _is_rest(word) or not _covers_word(wide[at], word):
            return False
    return len(wide) == len(narrow) or (len(wide) == len(narrow) + 1 and _is_rest(wide[-1]))


def _covers_word(wide: str | ArgPattern, narrow: str | ArgPattern) -> bool:
    if isinstance(wide, str):
        return wide == narrow
    if wide.wildcard:
        return True
    start = narrow if isinstance(narrow, str) else narrow.prefix
    return start is not None and start.startswith(wide.prefix or "")


def _is_rest(word: str | ArgPattern) -> bool:
    return isinstance(word, ArgPattern) and word.wildcard is True


def _shown(program: Program) -> str:
    words = (program.cmd, *program.args)
    return " ".join(word if isinstance(word, str) else "*" if word.wildcard else f"{word.prefix}*" for word in words)
