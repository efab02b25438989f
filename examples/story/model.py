"""The two agents without a mind: scripts with genuine tool calls. What they say comes from what the tools answer."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Generator
from typing import Any

from agent_host.proxy import DemoMove
from examples.demo.model.json_access import as_object
from examples.demo.model.replay import NOTE, Action, ReplayResult, Script, next_move, read_turn

from .messages import (
    ARTICLE,
    DATA,
    DONE,
    FINDINGS,
    RESEARCHER,
    RESEARCHER_TASK,
    SOURCE,
    TOPIC,
    WRITER,
    WRITER_TASK,
)

QUESTION = f"Which single hive did best, by {FINDINGS} and the file that you saved?"
_TOOLS = "blackboard entry, artifact, hand off to or ask another agent, publish an event to a topic"


class _Stuck(Exception):
    """A tool call failed."""


def play(payload: dict[str, Any]) -> DemoMove | None:
    """Return the next move of the agent whose task the request has; None for another task."""
    turn = read_turn(payload)
    script = _script_for(turn.text)
    if script is None or not turn.tools:
        return None
    move = next_move(_told(script), turn)
    return DemoMove(move.text, move.tool, move.arguments) if isinstance(move, Action) else DemoMove(move)


def _script_for(text: str) -> Script | None:
    if RESEARCHER_TASK.splitlines()[0] in text:
        return research()
    if WRITER_TASK.splitlines()[0] in text:
        return write()
    return answer() if QUESTION in text else None


def _told(script: Script) -> Script:
    """Play the script; where a call fails, its last words say so."""
    try:
        return (yield from script)
    except _Stuck as stuck:
        return f"[{NOTE}] I cannot go on: {stuck}"


def _do(tool: str, text: str, /, **arguments: Any) -> Generator[Action, ReplayResult, ReplayResult]:
    done = yield Action(tool, arguments, f"[{NOTE}] {text}")
    if done.error:
        raise _Stuck(f"{tool}: {done.error}")
    return done


def research() -> Script:
    """Find out, write it down, hand off."""
    yield from _do("tool_search", "I look for the tools of a team.", query=_TOOLS)
    begun = {"state": "in work"}
    first = yield from _do("write_blackboard", "I say that I am at it.", key=FINDINGS, value=begun, if_absent=True)
    source = yield from _do("read", "I read the figures.", path=SOURCE)
    found = findings(_rows(source))
    known = first.get("version")
    written = yield from _do("write_blackboard", "I write it down.", key=FINDINGS, value=found, if_version=known)
    if not written.get("written"):
        raise _Stuck("somebody else has written the findings")
    yield from _do("save_artifact", "I save the figures for the writer.", path=SOURCE, name=DATA)
    yield from _do("hand_off", "The writer goes on from here.", agent=WRITER, message=WRITER_TASK)
    return f"The bees found most on the meadow of {found['best_meadow']}; {WRITER} writes about it."


def write() -> Script:
    """Read what was found, ask back, write, publish."""
    yield from _do("tool_search", "I look for the tools of a team.", query=_TOOLS)
    entry = yield from _do("read_blackboard", "I read the findings.", key=FINDINGS)
    yield from _do("get_artifact", "I get the figures.", name=DATA, path=SOURCE)
    rows = _rows((yield from _do("read", "I read them.", path=SOURCE)))
    asked = yield from _do("ask_agent", "One thing is open.", agent=RESEARCHER, message=QUESTION)
    said = str(as_object(asked.get("response")).get("text", ""))
    text = article(as_object(entry.get("value")), len(rows), said)
    yield from _do("write", "I write the article.", path="article.md", content=text)
    saved = yield from _do("save_artifact", "I save it.", path="article.md", name=ARTICLE, if_absent=True)
    news = {"article": ARTICLE, "version": saved.get("version")}
    yield from _do("publish_event", "I say that it is done.", topic=TOPIC, data=news, id=DONE)
    return f"The article is {ARTICLE}."


def answer() -> Script:
    """Look the one thing up that the writer asks."""
    rows = _rows((yield from _do("read", "I look it up.", path=SOURCE)))
    best = max(rows, key=_honey)
    return f"{best['hive']}, on {best['meadow']}: {_honey(best):.1f} kg."


def findings(rows: list[dict[str, str]]) -> dict[str, Any]:
    """Return the average honey of a hive by meadow, and the best meadow."""
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[row["meadow"]].append(_honey(row))
    averages = {meadow: round(sum(honey) / len(honey), 1) for meadow, honey in sorted(groups.items())}
    return {"best_meadow": max(averages, key=lambda meadow: averages[meadow]), "kg_by_meadow": averages}


def article(found: dict[str, Any], hives: int, answered: str) -> str:
    """Return the article that the writer writes of this."""
    lines = [f"- {meadow}: {kg} kg" for meadow, kg in as_object(found.get("kg_by_meadow")).items()]
    head = [f"# The summer of {found.get('best_meadow')}", "", f"{hives} hives were weighed. One hive gave on average:"]
    return "\n".join([*head, "", *lines, "", f"The best of all: {answered}", ""])


def _rows(read: ReplayResult) -> list[dict[str, str]]:
    try:
        rows = list(csv.DictReader(str(read.get("content", "")).splitlines()))
        for row in rows:
            _honey(row)
    except (KeyError, TypeError, ValueError) as error:
        raise _Stuck(f"{SOURCE} is not the file that it should be: {error}") from None
    return rows


def _honey(row: dict[str, str]) -> float:
    return float(row["weight_kg_july"]) - float(row["weight_kg_may"])
