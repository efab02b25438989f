"""Turns that have failed in a storm: those whose agent was killed while they ran, and no others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_common.protocol import SessionMessage, is_object

from .persons import FAILED, Person
from .world import WORKSPACE, World

_INTERRUPTED = "interrupted"
_WORDS = f"{FAILED} The agent was restarted in the middle of this. Write again to go on."


@dataclass(frozen=True, slots=True)
class Failures:
    """How many turns have failed, by the agent's code for it, and what is wrong with that, in words."""

    codes: Counter[str]
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Turn:
    id: str
    begun: float
    before: float
    """When the next one began."""
    code: str
    """Why it has failed; "" if it has not."""


def failures_of(world: World, persons: Sequence[Person]) -> Failures:
    """Ask the agent for the turns of all persons, and hold those that failed against its deaths and what is shown."""
    world.start_agent()
    codes: Counter[str] = Counter()
    faults: list[str] = []
    for person in persons:
        turns = _turns(world, person)
        failed = [turn for turn in turns if turn.code]
        codes.update(turn.code for turn in failed)
        found = [*_unexplained(world, failed), *_shown_otherwise(person, len(failed))]
        faults += [f"{person.phone.name}: {fault}" for fault in found]
    return Failures(codes, faults)


def _turns(world: World, person: Person) -> list[_Turn]:
    name = f"{person.phone.name.partition(':')[0]}-{person.phone.chat}-1"
    answers: list[tuple[SessionMessage, float]] = []
    begun = 0.0  # a message of a person is as old as its turn; the answer to it may have been begun after a death
    for one in world.host.mesh.agent(WORKSPACE, person.phone.name).sessions.messages(name, hidden=True):
        if one.role == "user":
            begun = float(one.created_at)
        else:
            answers.append((one, begun))
    ends = [*(begun for _, begun in answers[1:]), math.inf]
    return [_Turn(one.id, begun, end, _code(one)) for (one, begun), end in zip(answers, ends, strict=True)]


def _code(answer: SessionMessage) -> str:
    outcome = answer.metadata.get("outcome")
    if not is_object(outcome):
        return "without an outcome"
    return "" if outcome["status"] == "complete" else str(outcome.get("error_code") or outcome["status"])


def _unexplained(world: World, failed: Sequence[_Turn]) -> Iterator[str]:
    """Those that no death explains. They do not overlap, so each has a death of its own."""
    for turn in failed:
        was_killed = any(first <= turn.before and last >= turn.begun for first, last in world.deaths)
        if turn.code != _INTERRUPTED or not was_killed:
            yield f"{turn.id} has failed: {turn.code}{'' if was_killed else ', and the agent was not killed meanwhile'}"


def _shown_otherwise(person: Person, failed: int) -> Iterator[str]:
    """Each failure is shown, once and as what it is."""
    lines = [line for one in person.phone.shown() for line in one.text.splitlines() if FAILED in line]
    yield from (f"it is shown that {line!r}" for line in lines if line != _WORDS)
    if len(lines) != failed:
        yield f"{failed} turns have failed, and {len(lines)} are shown to have"
