"""The second check of every call before it runs, by the rules of a policy file (`tool.before`)."""

from __future__ import annotations

import asyncio
import glob
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent_common.telemetry import logger

from ...errors import StartError
from ...ports import ToolContext, ToolSpec
from ..core.gate import NoWatchdog, Watchdog
from ..core.verdict import ALLOW, Verdict
from ..shell import script as shell
from .policy_file import PolicyRule, load_policy

REFERENCE_POLICY = Path(__file__).parent / "policies" / "shell.yaml"
_PATH_ARGUMENTS = frozenset({"path", "workdir"})
"""Arguments that are also matched after resolving `..`, as relative to the workspace and as absolute paths."""
_BRACKET = re.compile(r"(\[[*?[]\])|\[")
"""A bracket, or the three signs of `[*]`, `[?]` and `[[]`, which already stand for one sign itself."""

log = logger(__name__)


def choose_watchdog(setting: str) -> Watchdog:
    """Return the watchdog for `reference`, `off`, or the path of a policy file. Raises StartError with every fault."""
    if setting == "off":
        return NoWatchdog()
    try:
        return PolicyWatchdog(load_policy(REFERENCE_POLICY if setting == "reference" else Path(setting).expanduser()))
    except StartError as error:
        raise StartError(f"AGENT_WATCHDOG: {error}") from None


class PolicyWatchdog:
    """Applies rules: the first deny wins, else the first ask; a call that no rule matches is allowed."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self._rules = tuple(sorted(rules, key=lambda rule: rule.action == "ask"))  # stable: deny first, in order

    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        rules = [rule for rule in self._rules if _matches_any((rule.tool,), [spec.name])]
        rules = [rule for rule in rules if _matches_any((rule.agent,), [context.agent])]
        if not rules:
            return ALLOW
        script = str(arguments.get("command", ""))
        about_commands = any(rule.command or rule.pipeline or rule.writes for rule in rules)
        commands = await shell.parse_commands_async(script) if script and about_commands else shell.ScriptCommands()
        return await asyncio.to_thread(_first_match, rules, _Call(arguments, context, commands), context.call_id)


def _first_match(rules: Sequence[PolicyRule], call: _Call, call_id: str) -> Verdict:
    for rule in rules:
        if call.matches(rule):
            log.info("watchdog", action=rule.action, reason=rule.reason, call_id=call_id)
            return Verdict(rule.action, rule.reason)
    return ALLOW


class _Call:
    """One call as the conditions of rules see it."""

    def __init__(self, arguments: Mapping[str, Any], context: ToolContext, commands: shell.ScriptCommands) -> None:
        self._arguments = arguments
        self._context = context
        self.commands = commands
        self._script = str(arguments.get("command", ""))

    def matches(self, rule: PolicyRule) -> bool:
        return (
            all(self._matches_globs(globs, self._argument_values(name)) for name, globs in rule.argument.items())
            and (
                not rule.command
                or self._matches_globs(rule.command, _with_program_names((*self.commands.texts, *self.commands.nested)))
            )
            and (not rule.pipeline or self._matches_globs(rule.pipeline, _with_program_names(self.commands.pipelines)))
            and (not rule.writes or self._matches_globs(rule.writes, self.commands.writes))
            and (rule.pattern is None or rule.pattern.search(self._script[: shell.MAX_SCRIPT_BYTES]) is not None)
        )

    def _argument_values(self, name: str) -> list[str]:
        if name not in self._arguments:
            return []
        value = self._arguments[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if name not in _PATH_ARGUMENTS:
            return [text]
        whole = os.path.normpath(self._context.workspace / text)
        return [text, whole, os.path.relpath(whole, self._context.workspace)]

    def _matches_globs(self, globs: tuple[str, ...], texts: Iterable[str]) -> bool:
        places = {"{workspace}": self._context.workspace, "{scratch}": self._context.scratch}
        for name, path in places.items():
            globs = tuple(one.replace(name, glob.escape(str(path))) for one in globs)
        return _matches_any(globs, texts)


def _with_program_names(texts: Iterable[str]) -> list[str]:
    """Return each text, and also with its program's folder removed."""
    return [one for text in texts for one in dict.fromkeys((text, shell.strip_program_folder(text)))]


def _matches_any(globs: tuple[str, ...], texts: Iterable[str]) -> bool:
    compiled = [_compile_glob(one) for one in globs]
    return any(one.match(text) for text in texts for one in compiled)


@lru_cache(maxsize=2048)
def _compile_glob(one: str) -> re.Pattern[str]:
    """Compile a glob; `translate` makes every star atomic, so it never backtracks. As a rule only narrows, brackets
    stand for a choice and for themselves: `[id]` is a folder in many web frameworks."""
    literal = _BRACKET.sub(lambda found: found[1] or "[[]", one)
    return re.compile(f"{translate(one)}|{translate(literal)}")
