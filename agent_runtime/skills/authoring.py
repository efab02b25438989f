"""The tools by which an agent writes its own skills. The permission `skills.author` decides who may change which; a
rule's pattern is matched against the plugin's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agent_common.protocol import RequirementSet

from ..errors import ToolFailure
from ..ports import ToolContext, ToolSpec
from ..tools import RESERVED_TOOL_NAMES, AccessRequest, Output, Tool
from ..workspace import OPERATOR
from .manager import SkillManager
from .sources.versions import PluginVersion, VersionAuthor
from .validation.plugins import WORKER_FOLDERS, Plugin
from .validation.validator import SmokeTest

NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
MAX_CODE_LENGTH = 100_000
"""Characters of a plugin that the agent writes."""
MAX_VERSIONS_SHOWN = 20
"""Newest versions that `list_skills` shows."""
AUTHOR_REQUIREMENTS = RequirementSet(fs=WORKER_FOLDERS, capabilities=["skills.author"])
"""Validation runs the code, so it needs the same folders as its calls."""
TEST_KEYS = {"arguments", "skill", "expect"}

_NAME_PARAMETER: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "description": "Name of the plugin: letters, digits and _",
}

CREATE_DESCRIPTION = (
    "Give yourself a new tool, or change one you made: hand over Python code with one or more functions decorated with "
    "@skill. It is tried at once, with your test call if you give one; what passes can be called as a tool from your "
    "next step on, and stays. What does not changes nothing, and you get the file, line and reason: mend it and call "
    "this again. Use it when no tool can do what you need and you will need it more than once; for a single "
    "calculation bash is enough. The code runs confined, without network, in the workspace folder; standard library "
    "only unless more is installed. Example:\n"
    "@skill\ndef median(numbers: list[float]) -> float:\n"
    '    """The middle one of some numbers."""\n    import statistics\n    return statistics.median(numbers)'
)
CREATE_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _NAME_PARAMETER,
        "code": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_CODE_LENGTH,
            "description": "The whole Python file",
        },
        "test": {
            "type": "object",
            "description": "A call that it must stand: the arguments, or {arguments, skill?, expect?} to name the "
            "skill, and the result that must come of it",
        },
    },
    "required": ["name", "code"],
    "additionalProperties": False,
}
RELOAD_DESCRIPTION = (
    "Have your skills looked at again, or go back to an earlier version of one (name and version, see list_skills). "
    "Saved files are taken up by themselves; use this to be sure of it now, and to see what was refused and why."
)
RELOAD_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _NAME_PARAMETER,
        "version": {"type": "integer", "minimum": 1, "description": "The version to go back to; needs name"},
    },
    "additionalProperties": False,
}
REMOVE_DESCRIPTION = (
    "Take away a plugin and its skills. Its versions are kept: reload_skills with name and version brings one back."
)
LIST_DESCRIPTION = (
    "List your skills with their versions and what is wrong with them; with a name, also the code of that plugin and "
    "its history with what each version changed. Not for skill packages (skill)."
)
NAME_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"name": _NAME_PARAMETER},
    "additionalProperties": False,
}


def authoring_tools(manager: SkillManager) -> tuple[Tool, ...]:
    """`create_skill`, `list_skills`, `reload_skills` and `remove_skill` for the plugins of a manager."""
    return (_create_tool(manager), _list_tool(manager), _reload_tool(manager), _remove_tool(manager))


def _create_tool(manager: SkillManager) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        file = _file_name(arguments["name"])
        code = _encode_code(arguments["code"])
        test = _parse_test(arguments.get("test"))
        plugin, tested = await manager.create(file, code, test, _author(context))
        data = _describe_plugin(plugin)
        if tested is not None:
            data["test"] = {
                "skill": tested.skill,
                "result": tested.result,
                **({"log": tested.log} if tested.log else {}),
            }
        return Output(data, added_tools=plugin.names)

    spec = ToolSpec("create_skill", CREATE_DESCRIPTION, CREATE_PARAMETERS, idempotent=True)
    answers = "`name`, `file`, `version`, `skills` with their schemas, `test?` of `skill`, `result`, `log?`"
    bounds = f"{MAX_CODE_LENGTH // 1000},000 characters of code; import and check 15 s, test call 30 s"
    return Tool(
        spec,
        run,
        AUTHOR_REQUIREMENTS,
        describe_access=partial(_describe_access, manager=manager),
        result_doc=answers,
        limits_doc=bounds,
    )


def _reload_tool(manager: SkillManager) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        name = arguments.get("name")
        number = arguments.get("version")
        if number is not None:
            if name is None:
                raise ToolFailure("name: is required with version", kind="invalid")
            plugin = await manager.restore(await _find_version(manager, _file_name(name), number), _author(context))
            return Output(_describe_plugin(plugin), added_tools=plugin.names)
        await manager.reload()
        states = _states(manager, name)
        if name is not None and not states:
            raise _unknown_plugin_error(manager, _file_name(name))
        return Output({"skills": states}, added_tools=tuple(one["name"] for one in states if one["state"] == "active"))

    spec = ToolSpec("reload_skills", RELOAD_DESCRIPTION, RELOAD_PARAMETERS, idempotent=True)
    answers = "`skills` with name, file, version, state, `error?`; of a version gone back to, as create_skill"
    return Tool(
        spec,
        run,
        AUTHOR_REQUIREMENTS,
        describe_access=partial(_describe_access, manager=manager, only_with="version"),
        result_doc=answers,
    )


def _remove_tool(manager: SkillManager) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        file = _file_name(arguments["name"])
        if not await manager.remove(file, _author(context)):
            raise _unknown_plugin_error(manager, file)
        return {"name": arguments["name"], "removed": True}

    spec = ToolSpec("remove_skill", REMOVE_DESCRIPTION, {**NAME_PARAMETERS, "required": ["name"]})
    return Tool(
        spec,
        run,
        AUTHOR_REQUIREMENTS,
        describe_access=partial(_describe_access, manager=manager),
        result_doc="`name`, `removed`",
    )


def _list_tool(manager: SkillManager) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        name = arguments.get("name")
        found: dict[str, Any] = {"skills": _states(manager, name)}
        if name is not None:
            versions = await manager.versions.history(_file_name(name))
            if not versions and not found["skills"]:
                raise ToolFailure(f"name: there never was a plugin {name}; leave name out to see all", kind="invalid")
            codes = [one.files.get(one.file) for one in versions if one.files is not None]
            code = codes[-1] if codes else None
            found["versions"] = [_describe_version(one, context) for one in versions[-MAX_VERSIONS_SHOWN:]]
            found["code"] = code.decode(errors="replace") if code is not None else None
        return found

    spec = ToolSpec("list_skills", LIST_DESCRIPTION, NAME_PARAMETERS, read_only=True, idempotent=True)
    answers = "`skills` with name, file, version, state, `error?`; with a name also `versions`, `code`"
    return Tool(spec, run, result_doc=answers, limits_doc=f"the newest {MAX_VERSIONS_SHOWN} versions")


async def _describe_access(
    arguments: Mapping[str, Any], context: ToolContext, *, manager: SkillManager, only_with: str = ""
) -> AccessRequest:
    """Describe what a call changes, if it changes something only with a certain argument. A plugin that people have put
    into the folder is theirs: the agent of a user, or one that has read text from outside, asks before it changes it,
    unless a rule names it."""
    name = arguments.get("name")
    if name is None:
        return AccessRequest()
    trusted = context.principal == OPERATOR and not context.outside_text.seen
    asks = ""
    if (not only_with or only_with in arguments) and not trusted and await manager.belongs_to_people(_file_name(name)):
        asks = f"{name.removesuffix('.py')}: a person has put this plugin into the folder, and it serves all users"
    return AccessRequest(subjects=(name.removesuffix(".py"),), asks=asks)


def _file_name(name: str) -> str:
    name = name.removesuffix(".py")
    if not NAME_PATTERN.fullmatch(name):
        raise ToolFailure(f"name: {name!r} must be letters, digits and _, beginning with a letter", kind="invalid")
    if name in RESERVED_TOOL_NAMES:
        raise ToolFailure(f"name: {name} is a tool of the runtime; take another name", kind="invalid")
    return f"{name}.py"


def _unknown_plugin_error(manager: SkillManager, file: str) -> ToolFailure:
    there_are = ", ".join(sorted({state.file for state in manager.states()})) or "none"
    return ToolFailure(f"name: there is no plugin {file}; there are: {there_are}", kind="invalid")


def _encode_code(code: str) -> bytes:
    try:
        return code.encode()
    except UnicodeEncodeError as error:
        text = f"code: character {error.start} is half of a character; write it whole"
        raise ToolFailure(text, kind="invalid") from error


def _parse_test(given: Any) -> SmokeTest | None:
    """Return the test call: `{arguments, skill?, expect?}` with an object of arguments, or the arguments themselves."""
    if given is None:
        return None
    if isinstance(given.get("arguments"), dict) and given.keys() <= TEST_KEYS:
        skill = given.get("skill")
        if skill is not None and not isinstance(skill, str):
            raise ToolFailure("test.skill: must be the name of a skill", kind="invalid")
        return SmokeTest(given["arguments"], skill, given.get("expect"), "expect" in given)
    return SmokeTest(given)


async def _find_version(manager: SkillManager, file: str, number: int) -> PluginVersion:
    versions = {one.number: one for one in await manager.versions.history(file)}
    if number not in versions:
        there_are = f"there are 1 to {max(versions)}" if versions else f"there never was a plugin {file}"
        raise ToolFailure(f"version: {file} has no version {number}; {there_are}", kind="invalid")
    return versions[number]


def _author(context: ToolContext) -> VersionAuthor:
    return VersionAuthor(context.principal, context.agent, context.session_id, context.call_id)


def _describe_plugin(plugin: Plugin) -> dict[str, Any]:
    skills = [
        {"name": tool.spec.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
        for tool in plugin.tools
    ]
    name = plugin.file.removesuffix(".py")
    return {"name": name, "file": plugin.file, "version": plugin.version, "skills": skills}


def _states(manager: SkillManager, name: str | None) -> list[dict[str, Any]]:
    file = _file_name(name) if name is not None else None
    return [state.model_dump(exclude_none=True) for state in manager.states() if file in (None, state.file)]


def _describe_version(version: PluginVersion, context: ToolContext) -> dict[str, Any]:
    """Describe a version; an author other than the asking user is shown as `another`."""
    at = datetime.fromtimestamp(version.created_at / 1000, UTC).isoformat(timespec="seconds")
    by = version.author.principal if version.author else "the folder"
    if version.author is not None and by != context.principal:
        by = "another"
    return {"version": version.number, "action": version.action, "at": at, "by": by, "diff": version.diff}
