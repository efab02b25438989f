"""`/permissions`: the rules for what the agent may do, and changes of those that a person may change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypeVar

from pydantic import ValidationError
from rich.console import Group
from rich.text import Text

from agent_common.protocol import AgentRule, Permissions, Rule, SessionRule

from .... import NotFound
from ...errors import UsageError
from .table import Chat, say
from .tables import listing

R = TypeVar("R", SessionRule, AgentRule)
USAGE = "/permissions allow|ask|deny TOOL PATTERN, or /permissions remove NUMBER"


async def permissions(chat: Chat, given: str) -> None:
    words = given.split()
    current = await _current(chat, begins=words[:1] in (["allow"], ["ask"], ["deny"]) and len(words) > 1)
    if words:
        current = await _change(chat, current, words)
    own = [
        *((rule, "session") for rule in current.rules),
        *((rule, f"your sessions with {current.agent}") for rule in current.agent_rules),
    ]
    rows = [
        (f"{number}. ", rule.action, rule.permission, rule.pattern, scope)
        for number, (rule, scope) in enumerate(own, 1)
    ]
    rows += [*_grouped(current.project, "operator"), *_grouped(current.manifest, f"agent {current.agent}")]
    hint = Text("/permissions allow|ask|deny TOOL PATTERN · /permissions remove NUMBER", "dim")
    say(chat, Group(listing(rows) if rows else Text("There are no rules.", "dim"), Text(""), hint))


async def _current(chat: Chat, *, begins: bool) -> Permissions:
    """Return the rules of the session, which one that is added `begins`, so that it holds before the first call."""
    name = chat.conversation.session
    try:
        return await chat.agent.sessions.permissions(name)
    except NotFound as error:
        if error.code != "unknown_session" or chat.conversation.busy or not begins:
            raise
    await chat.agent.sessions.reset(name)
    await chat.watch.read_session(name)
    return await chat.agent.sessions.permissions(name)


def _grouped(rules: Sequence[Rule], scope: str) -> list[tuple[str, str, str, str, str]]:
    """Rows of rules that a person cannot change, those in one for which the same holds: an agent has many."""
    groups = groupby(rules, key=lambda rule: (rule.action, rule.pattern))
    return [
        ("", action, ", ".join(rule.permission for rule in members), pattern, scope)
        for (action, pattern), members in groups
    ]


async def _change(chat: Chat, current: Permissions, words: Sequence[str]) -> Permissions:
    """Add a rule to the session, or take back one of the session's, which are numbered first, or of the user's. Raises
    UsageError."""
    name = chat.conversation.session
    of_session = len(current.rules)
    match words:
        case ["remove", number] if number.isdigit() and 1 <= int(number) <= of_session:
            return await chat.agent.sessions.permit(name, _without(SessionRule, current.rules, int(number)))
        case ["remove", number] if number.isdigit() and of_session < int(number) <= of_session + len(
            current.agent_rules
        ):
            rules = _without(AgentRule, current.agent_rules, int(number) - of_session)
            await chat.agent.permissions.set(current.agent, rules)
            return await chat.agent.sessions.permissions(name)
        case [("allow" | "ask" | "deny") as action, permission, *pattern]:
            new = _rule(permission, " ".join(pattern) or "*", action)
            kept = [rule for rule in current.rules if (rule.permission, rule.pattern) != (permission, new.pattern)]
            return await chat.agent.sessions.permit(name, [*_without(SessionRule, kept), new])
        case _:
            raise UsageError(USAGE)


def _without(shape: type[R], rules: Sequence[Rule], number: int = 0) -> list[R]:
    """Return the rules as they are sent, but for the one with this number, counted from 1."""
    return [
        shape(permission=rule.permission, pattern=rule.pattern, action=rule.action, added_at=rule.added_at)
        for at, rule in enumerate(rules, 1)
        if at != number
    ]


def _rule(permission: str, pattern: str, action: Literal["allow", "ask", "deny"]) -> SessionRule:
    try:
        return SessionRule(permission=permission, pattern=pattern, action=action)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
