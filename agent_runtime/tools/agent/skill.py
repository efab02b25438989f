"""`skill`: loads the instructions of a skill package."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from ...errors import ToolFailure
from ...ports import LoadedSkill, PackageCatalog, SkillIndex, ToolContext, ToolSpec
from ..core.contract import AccessRequest, Tool
from ..core.envelope import RESULT_LIMIT
from ..files.paths import denies_reading

MAX_NAMES_IN_ERROR = 50
"""Maximum packages listed in an error."""
DESCRIPTION = (
    "Load the instructions of a skill package by its name, and follow them. Use it when a task fits the description of "
    "one under <skills>, or where a person names one; "
    "load it once, since it stays in the conversation, and again if its instructions are not shown any more. "
    "Not for running anything: what a package tells you to run, you run with the other tools."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Name of the package"}},
    "required": ["name"],
    "additionalProperties": False,
}
_NAME_PATTERN = re.compile(r"[a-z0-9-]+")
_TAG = re.compile(r"<(?=\s*+/?+\s*+skill_)", re.IGNORECASE)
"""Tags that could close the wrapper of the text, or open another one inside it."""
_FOLDER = re.compile(r"\$\{CLAUDE_SKILL_DIR\}|\$CLAUDE_SKILL_DIR\b|(?<!\$)\{baseDir\}")
_PLUGIN = re.compile(r"\$\{CLAUDE_PLUGIN_ROOT\}|\$CLAUDE_PLUGIN_ROOT\b")
"""The folder above the `skills` in which the package is."""


class NoSkills:
    """An index without packages."""

    def catalog(self) -> PackageCatalog:
        return PackageCatalog()

    def list_packages(self) -> Sequence[tuple[str, str]]:
        return ()

    async def load(self, name: str, context: ToolContext) -> LoadedSkill:
        raise ToolFailure(f"name: there is no skill package {name!r}", kind="unavailable")


def skill_tool(index: SkillIndex) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, str]:
        name = arguments["name"]
        if name not in context.packages:
            raise await _missing_package_error(index, name, context)
        loaded = await index.load(name, context)
        if loaded.file and denies_reading(loaded.file, context):
            raise ToolFailure(f"name: a rule for fs.read forbids the file of package {name}", kind="denied")
        return {"content": _render_skill(name, loaded)}

    spec = ToolSpec("skill", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    bounds = f"{RESULT_LIMIT // 1024} KB"
    answers = "`content`, within a `skill_content` tag"
    return Tool(
        spec, run, describe_access=partial(_describe_access, index=index), result_doc=answers, limits_doc=bounds
    )


async def _describe_access(arguments: Mapping[str, Any], context: ToolContext, *, index: SkillIndex) -> AccessRequest:
    name = arguments["name"]
    if not _NAME_PATTERN.fullmatch(name):  # otherwise a suggested rule would contain a pattern
        raise await _missing_package_error(index, name, context)
    return AccessRequest((name,))


async def _missing_package_error(index: SkillIndex, name: str, context: ToolContext) -> ToolFailure:
    """Return the error for a package that the session does not have."""
    now = [known for known, _ in await asyncio.to_thread(index.list_packages)]
    if name in now:
        text = f"name: there is no skill package {name!r} in this session; it will be there in a new one"
    elif not context.packages:
        text = "there are no skill packages in this session; go on with the other tools"
    else:
        catalog = await asyncio.to_thread(index.catalog)
        unlisted = {package["name"] for package in catalog.packages if package.get("invocation") == "person"}
        known = [one for one in context.packages if one not in unlisted]
        more = f" and {len(known) - MAX_NAMES_IN_ERROR} more" if len(known) > MAX_NAMES_IN_ERROR else ""
        text = f"name: there is no skill package {name!r}; there are: {', '.join(known[:MAX_NAMES_IN_ERROR])}{more}"
    return ToolFailure(text, kind="unavailable")


def _with_folder(body: str, folder: str) -> str:
    """Return the text with the package's folder where it names it as other products do. No shell here has a variable
    for it."""
    if not folder:
        return body
    body = _FOLDER.sub(lambda _: folder, body)
    above = PurePosixPath(folder).parent
    return _PLUGIN.sub(lambda _: str(above.parent), body) if above.name == "skills" else body


def _render_skill(name: str, loaded: LoadedSkill) -> str:
    """Return the package in one tag that its content cannot close."""
    lines = [_TAG.sub("&lt;", _with_folder(loaded.body.strip(), loaded.folder))]
    if loaded.folder:
        lines += ["", f"The paths in these instructions start in the folder of the package, {loaded.folder}"]
        lines += ["<skill_files>", *(_TAG.sub("&lt;", file) for file in loaded.files), "</skill_files>"]
    if loaded.omitted_files:
        lines.append(f"[{loaded.omitted_files} more are not listed]")
    if loaded.note:
        lines.append(f"[{_TAG.sub('&lt;', loaded.note)}]")
    return "\n".join((f'<skill_content name="{name}">', *lines, "</skill_content>"))
