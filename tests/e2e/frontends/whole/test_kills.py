"""Kill -9 of bots, host and agent while people write, over platforms that fail."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_testing import TelegramFaults
from agent_testing.discord import RandomFaults
from tests.storm_seed import storm_seed

from .failures import failures_of
from .killers import Killer
from .persons import Person
from .phones import DiscordPhone, Phone, TelegramPhone
from .talk import KINDS, Kind, Message, reply
from .verdict import faults_of, is_quiet, seen
from .world import World

PEOPLE, MESSAGES = 20, 8
MIN_DECIDED = 10
"""Approvals that a person must have decided, so that the storm shows anything about them."""
STORM_SECONDS, QUIET_SECONDS = 900.0, 300.0
GATEWAY_FAULTS = 12
"""How often connections of Discord's gateway are cut and sessions end, beside the cuts at random."""


def telegram_faults(seed: int) -> TelegramFaults:
    return TelegramFaults(
        seed,
        too_many_requests=0.02,
        server_errors=0.03,
        html=0.01,
        cuts_before=0.02,
        cuts_after=0.03,
        slow=0.03,
        cut_polls=0.1,
        duplicates=0.05,
        reorders=0.2,
        late=0.05,
        slow_seconds=0.2,
    )


def discord_faults(seed: int) -> RandomFaults:
    return RandomFaults(seed, limited=0.02, failed=0.03, cut=0.03, slow=0.03, twice=0.05, late=0.05, gateway_cut=0.01)


def make_persons(world: World, seed: int, people: int, messages: int) -> list[Person]:
    """Their messages are of all kinds equally often, whatever the seed."""
    generator = random.Random(seed)
    kinds: list[Kind] = [KINDS[number % len(KINDS)] for number in range(people * (messages - 1))]
    generator.shuffle(kinds)
    persons: list[Person] = []
    for number in range(people):
        name = f"Person {number}"
        phone: Phone = DiscordPhone(world.discord, name) if number % 2 else TelegramPhone(world.telegram, name)
        moments = sorted(generator.random() * 0.97 for _ in range(messages - 1))
        plan = [(at, Message(kinds.pop(), f"w{number}n{index}")) for index, at in enumerate(moments, 1)]
        first = (0.0, Message("say", f"w{number}n0"))
        persons.append(Person(phone, random.Random(f"{seed}/{number}"), [first, *plan]))
    return persons


def until(holds: Callable[[], bool], persons: list[Person], progress: Callable[[], float], seconds: float) -> None:
    """Let people act until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        for person in persons:
            person.act(progress())
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def storm(world: World, people: int, messages: int, bots: int, hosts: int, agents: int) -> None:
    seed = storm_seed()
    persons = make_persons(world, seed, people, messages)
    world.configure([person.phone.name for person in persons])
    world.provider.script.replace(reply)
    world.start_bots()
    world.wait_until_connected()
    until(lambda: all(len(one.written) == 1 and one.phone.shown() for one in persons), persons, lambda: 0.0, 60)
    world.telegram.faults, world.discord.faults.random = telegram_faults(seed), discord_faults(seed)
    cuts: tuple[Callable[[], object], ...] = (
        world.discord.cut_gateway,
        world.discord.invalidate_sessions,
        world.telegram.cut_poll,
    )
    generator, faults = random.Random(seed), 0
    begin = time.monotonic()
    with Killer(world, seed, bots, hosts, agents) as kills:

        def over() -> bool:
            nonlocal faults
            if kills.progress * GATEWAY_FAULTS > faults:
                faults += 1
                generator.choice(cuts)()
            return kills.progress == 1

        until(over, persons, lambda: kills.progress, STORM_SECONDS)
    world.telegram.clear_faults()
    world.discord.faults.clear()
    print(f"{kills.done}, {time.monotonic() - begin:.0f} s")
    try:
        end(world, persons)
    finally:
        world.stop_bots()
        failures = failures_of(world, persons)
        print(f"{failures.codes.total()} turns have failed: {dict(failures.codes)}")
        if found := [*faults_of(world, persons), *failures.faults]:
            report(world, persons)
            print("FAULTS", *found, sep="\n")
    assert not found, "\n".join(found)


def approvals_decided(world: World) -> int:
    """How many approvals a person has decided by a press."""
    [(count,)] = world.rows("SELECT count(*) FROM requests WHERE kind = 'approval' AND verdict LIKE '% by %'")
    print(f"{count} approvals were decided")
    return count


def end(world: World, persons: list[Person]) -> None:
    """Let people write what is left, until everything has its answer."""
    deadline = time.monotonic() + QUIET_SECONDS
    while any(one.plan for one in persons) or not is_quiet(world):
        calm = is_quiet(world)
        for person in persons:
            person.act(1.0, calm=calm)
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def report(world: World, persons: list[Person]) -> None:
    """Print what people see, and how the bots have come to it."""
    for person in persons:
        print(person.phone.name, {word: id for word, (_, id) in person.written.items()})
        print(seen(person.phone.shown()))
    for call in world.telegram.journal:
        if call.method.startswith(("send", "edit", "delete")):
            outcome = call.fault, call.applied, call.status, call.error
            print(f"{call.at:.2f} {call.method} {dict(call.parameters.texts)}"[:250], *outcome)
    for request in world.discord.journal:
        if "/messages" in request.path and request.method != "GET":
            content = (request.body or {}).get("content")
            outcome = request.fault, request.applied, request.status, request.code
            print(f"{request.at:.2f} {request.method} {request.path} {content!r}"[:250], *outcome)
    print(*world.logs, sep="\n---\n")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_nothing_is_lost_and_nothing_comes_twice_over_a_hundred_kills(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        storm(world, PEOPLE, MESSAGES, bots=60, hosts=20, agents=20)
        assert approvals_decided(world) >= MIN_DECIDED
