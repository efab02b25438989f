"""Read a watchdog's policy file (YAML). Every fault is reported with its line, its field and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from ...errors import StartError

if TYPE_CHECKING:
    from yaml import Node

HOOK = "tool.before"
SHELL_FIELDS = ("command", "pipeline", "writes", "pattern")
"""Conditions for shell commands only."""
FIELDS = ("tool", "agent", *SHELL_FIELDS, "argument", "action", "reason")
MAX_PATTERN_COST = 2000
"""Maximum ways in which a pattern may match at one place."""
MAX_PATTERN_LENGTH = 500
"""Maximum characters of a pattern."""
SIZE_LIMIT = 1024 * 1024
"""Maximum bytes of a policy file."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule. All its conditions must hold; a condition with several globs holds if one matches."""

    action: Literal["deny", "ask"]
    reason: str
    tool: str = "*"
    agent: str = "*"
    command: tuple[str, ...] = ()
    pipeline: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    argument: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    pattern: re.Pattern[str] | None = None

    @property
    def shell(self) -> bool:
        return bool(self.command or self.pipeline or self.writes or self.pattern)


def load_policy(path: Path) -> tuple[PolicyRule, ...]:
    """Return the rules of a file. Raises StartError with every fault."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise StartError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StartError(f"{path}: is not text in UTF-8") from None
    if len(text) > SIZE_LIMIT:
        raise StartError(f"{path}: is larger than {SIZE_LIMIT // 1024} KiB")
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str) -> tuple[PolicyRule, ...]:
    """Return the rules of a policy; `name` is its name in faults. Raises StartError with every fault."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be read as YAML"
        raise StartError(f"{name}:{mark.line + 1 if mark else 1}: is not YAML: {problem}") from None
    except RecursionError:
        raise StartError(f"{name}: is nested too deep") from None
    reader = _Reader(name)
    rules = reader.read_policy(root)
    if reader.faults:
        raise StartError("\n".join(reader.faults))
    return rules


def _node_kind(node: Node | None) -> str:
    return str(getattr(node, "id", "nothing"))


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self.faults: list[str] = []

    def add_fault(self, node: Node | None, where: str, what: str) -> None:
        line = node.start_mark.line + 1 if node else 1
        self.faults.append(f"{self._name}:{line}: {where}: {what}")

    def read_policy(self, root: Node | None) -> tuple[PolicyRule, ...]:
        top = self._mapping(root, "the file", (HOOK,))
        rules = top.get(HOOK)
        if top and rules is None:
            return ()
        if rules is None or _node_kind(rules) != "sequence":
            self.add_fault(rules or root, HOOK, "must be a list of rules")
            return ()
        found = [self._rule(node, f"{HOOK}[{index}]") for index, node in enumerate(rules.value)]
        return tuple(rule for rule in found if rule is not None)

    def _mapping(self, node: Node | None, where: str, allowed: tuple[str, ...] | None) -> dict[str, Node]:
        if node is None or _node_kind(node) != "mapping":
            self.add_fault(node, where, f"must be a mapping of {', '.join(allowed or ('arguments to globs',))}")
            return {}
        found: dict[str, Node] = {}
        for key, value in node.value:
            name = key.value if _node_kind(key) == "scalar" else "?"
            if allowed is not None and name not in allowed:
                self.add_fault(key, f"{where}.{name}", f"no such field; there are: {', '.join(allowed)}")
            elif name in found:
                self.add_fault(key, f"{where}.{name}", "is there twice; keep one")
            else:
                found[name] = value
        return found

    def _rule(self, node: Node, where: str) -> PolicyRule | None:
        before = len(self.faults)
        fields = self._mapping(node, where, FIELDS)
        if _node_kind(node) != "mapping":
            return None

        def get(name: str, read: Callable[[Node, str], T], default: T) -> T:
            return read(fields[name], f"{where}.{name}") if name in fields else default

        for name in ("tool", "action", "reason"):
            if name not in fields:
                self.add_fault(node, f"{where}.{name}", "is required")
        tool = get("tool", self._text, "")
        if tool != "bash" and (wrong := [name for name in SHELL_FIELDS if name in fields]):
            self.add_fault(
                fields[wrong[0]], f"{where}.{wrong[0]}", "is for shell commands; set tool: bash, or use argument"
            )
        rule = PolicyRule(
            action=get("action", self._action, "deny"),
            reason=get("reason", self._text, ""),
            tool=tool,
            agent=get("agent", self._text, "*"),
            command=get("command", self._globs, ()),
            pipeline=get("pipeline", self._globs, ()),
            writes=get("writes", self._globs, ()),
            argument=get("argument", self._arguments, {}),
            pattern=get("pattern", self._pattern, None),
        )
        return rule if len(self.faults) == before else None

    def _text(self, node: Node, where: str) -> str:
        if _node_kind(node) == "scalar" and node.value.strip() and node.tag != "tag:yaml.org,2002:null":
            return str(node.value)
        self.add_fault(node, where, "must be a text that is not empty")
        return ""

    def _action(self, node: Node, where: str) -> Literal["deny", "ask"]:
        if _node_kind(node) == "scalar" and node.value in {"deny", "ask"}:
            return "ask" if node.value == "ask" else "deny"
        self.add_fault(node, where, f"must be deny or ask, not {str(node.value)[:40]!r}")
        return "deny"

    def _globs(self, node: Node, where: str) -> tuple[str, ...]:
        if _node_kind(node) != "sequence":
            return (self._text(node, where),)
        if not node.value:
            self.add_fault(node, where, "must be a glob or a list of globs; an empty list matches nothing")
        return tuple(self._text(one, f"{where}[{index}]") for index, one in enumerate(node.value))

    def _arguments(self, node: Node, where: str) -> dict[str, tuple[str, ...]]:
        found = self._mapping(node, where, None)
        return {name: self._globs(value, f"{where}.{name}") for name, value in found.items()}

    def _pattern(self, node: Node, where: str) -> re.Pattern[str] | None:
        text = self._text(node, where)
        if text and (wrong := pattern_fault(text)):
            self.add_fault(node, where, wrong)
            return None
        return re.compile(text)


# ---------------------------------------------------------------- patterns that cannot hang

_TOKEN = re.compile(
    r"(?P<back>\\[1-9]|\(\?P=)|\\.|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?:)?)(?P<special>\?)?|(?P<endless>[*+])"
    r"|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}|(?P<maybe>\?)|(?P<or>\|)|.",
    re.DOTALL,
)


def pattern_fault(pattern: str) -> str | None:
    """Return why a pattern is refused; None if it is accepted. An accepted one takes at most MAX_PATTERN_COST steps per
    place.

    Python's engine tries every way in which a pattern may match, so the ways are counted: repetitions must be bounded,
    groups may not be repeated, and lookarounds are refused.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"is longer than {MAX_PATTERN_LENGTH} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is not a regular expression: {error}"
    branches = 1
    before = ""
    start = 4 if pattern.startswith("(?i)") else 0
    for token in _TOKEN.finditer(pattern, start):
        if wrong := _complexity_fault(token, before):
            return wrong
        branches *= _branch_count(token)
        if branches > MAX_PATTERN_COST:
            return (
                f"could match in more than {MAX_PATTERN_COST} ways at one place; use narrower bounds or several rules"
            )
        before = token[0]
    return None


def _complexity_fault(token: re.Match[str], before: str) -> str | None:
    if token["back"] or token["special"]:
        return "may not look back or around, nor name groups; (?: ) and (?i) at the start are fine"
    if token["endless"] or (token["comma"] and not token["high"]):
        return f"{token[0]!r} has no end; write how often at most, such as {{0,200}}"
    if before == ")" and (token["low"] or token["high"]):
        return "a group may be optional but not repeated; write it out"
    return None


def _branch_count(token: re.Match[str]) -> int:
    if token["comma"] and token["high"]:
        return max(int(token["high"]) - int(token["low"] or 0) + 1, 1)
    return 2 if token["maybe"] or token["or"] else 1
