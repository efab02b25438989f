"""Rules and audiences against a small model: what is refused, and what each way of reading shows to whom."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_common.protocol.hub import EV_SESSION_CLOSED, NetworkError
from agent_host.hub import Hub

from .raw_link import RawLink, join, open_session, opened

SAID = "app.said"
"""Takes no turn, so that only rules and audiences decide."""
MEMBERS = ("ann", "ben", "cas", "dot")
NAMES = (*MEMBERS, "eve")
"""Eve takes no part."""
TYPES = ("consulting", "conversation")
Rule = dict[str, list[str]]


@dataclass
class Model:
    """Who takes part, what each allows, and what was said to whom."""

    present: list[str] = field(default_factory=lambda: list(MEMBERS))
    registered: list[str] = field(default_factory=lambda: list(NAMES))
    rules: dict[str, Rule] = field(default_factory=lambda: {name: {} for name in NAMES})
    said: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Sender, text, and who took part and was addressed."""

    def allows(self, name: str, what: str, other: str) -> bool:
        listed = self.rules[name].get(what, ["*"])
        return "*" in listed or other in listed

    def may_send(self, sender: str, audience: tuple[str, ...] | None) -> bool:
        if sender not in self.present or not set(audience or ()) <= set(self.present):
            return False
        return all(self.allows(one, "inbound_from", sender) for one in self.addressed(sender, audience))

    def addressed(self, sender: str, audience: tuple[str, ...] | None) -> tuple[str, ...]:
        return tuple(one for one in self.present if one != sender and (audience is None or one in audience))

    def may_open(self, creator: str, target: str, kind: str) -> bool:
        return (
            {creator, target} <= set(self.registered)
            and creator != target
            and self.allows(creator, "initiate", kind)
            and self.allows(creator, "outbound_to", target)
            and self.allows(target, "inbound_from", creator)
            and self.allows(target, "accept", kind)
        )

    def gets(self, name: str) -> list[str]:
        return [text for _, text, addressed in self.said if name in addressed]

    def reads(self, name: str) -> list[str]:
        return [text for sender, text, addressed in self.said if name == sender or name in addressed]


names = st.sampled_from([*MEMBERS, *MEMBERS, "eve"])
lists = st.lists(names, min_size=1, max_size=4, unique=True)
types = st.lists(st.sampled_from(TYPES), unique=True)
rules = st.fixed_dictionaries(
    {"inbound_from": lists}, optional={"outbound_to": lists, "initiate": types, "accept": types}
)
sends = st.tuples(st.just("send"), names, st.one_of(st.none(), lists.map(tuple)))
openings = st.tuples(st.just("open"), names, st.tuples(names, st.sampled_from(TYPES)))
settings_of_rules = st.tuples(st.just("rule"), names, st.one_of(rules, st.just({})))
steps = st.sampled_from([sends] * 5 + [openings] * 2 + [settings_of_rules] * 2 + [st.tuples(st.just("leave"), names)])
plays = st.lists(steps.flatmap(lambda kind: kind), min_size=8, max_size=25)


class Play:
    """Does each step on a hub and in the model, and compares."""

    def __init__(self, hub: Hub, links: dict[str, RawLink], session: str) -> None:
        self.hub, self.links, self.session = hub, links, session
        self.ids = {name: link.agent_id for name, link in links.items()}
        self.model = Model()

    async def send(self, sender: str, audience: tuple[str, ...] | None) -> None:
        text = str(len(self.model.said))
        to = None if audience is None else [self.ids[one] for one in audience]
        allowed = self.model.may_send(sender, audience)
        assert await succeeds(self.links[sender].send(self.session, text, SAID, audience=to)) == allowed
        if allowed:
            self.model.said.append((sender, text, self.model.addressed(sender, audience)))

    async def open(self, creator: str, wanted: tuple[str, str]) -> None:
        target, kind = wanted
        opening = open_session(self.links[creator], target, kind=kind)
        assert await succeeds(opening) == self.model.may_open(creator, target, kind)

    async def rule(self, name: str, rule: Rule) -> None:
        parts = {"access": ("inbound_from", "outbound_to"), "session_types": ("initiate", "accept")}
        whole = {part: {key: rule[key] for key in keys if key in rule} for part, keys in parts.items()}
        if name in self.model.registered:
            await self.links[name].ask_own("set_rule", rule=whole)
            self.model.rules[name] = rule

    async def leave(self, name: str) -> None:
        if name not in self.model.registered or (name in self.model.present and len(self.model.present) <= 2):
            return  # the last two would end the session
        await self.links[name].ask_own("unregister")
        self.model.registered.remove(name)
        if name in self.model.present:
            self.model.present.remove(name)

    def subscribe(self) -> None:
        for name in self.model.present:
            self.links[name].subscribe(self.session)

    async def check(self, was_live: bool) -> None:
        """Each way of reading shows what the model says, and nothing else."""
        await RawLink(self.hub, reads_all=True).ask("close", session_id=self.session)
        for name in self.model.present:
            link = self.links[name]
            delivered, subscribed = await until_closed(link, self.session)
            log = (await link.ask_own("read_log", session_id=self.session))["envelopes"]
            read = [one["event_data"]["text"] for one in log if one["event_type"] == SAID]
            assert (delivered, read, subscribed) == (
                self.model.gets(name), self.model.reads(name), self.model.reads(name)
            )  # fmt: skip
        for name in set(NAMES) - set(self.model.present):
            link = self.links[name]
            delivered, subscribed = by_way([link.notifies.get_nowait() for _ in range(link.notifies.qsize())])
            assert delivered == self.model.gets(name)
            assert subscribed == (self.model.reads(name) if was_live else [])
            assert not await succeeds(link.ask_own("read_log", session_id=self.session))
            link.subscribe(self.session)
            assert (await asyncio.wait_for(link.others.get(), 60)).kind == "error"


async def succeeds(work: Any) -> bool:
    try:
        await work
    except NetworkError:
        return False
    return True


def by_way(frames: list[Any]) -> tuple[list[str], list[str]]:
    """The texts that were delivered, and those that the subscription has told."""
    said = [frame for frame in frames if frame.envelope.event_type == SAID]
    delivered, told = [[one for one in said if bool(one.subscription_id) == is_told] for is_told in (False, True)]
    return [one.envelope.event_data["text"] for one in delivered], [one.envelope.event_data["text"] for one in told]


async def until_closed(link: RawLink, session: str) -> tuple[list[str], list[str]]:
    """The same up to the end of the session."""
    open_ways, frames = {"", "sub"}, list[Any]()
    while open_ways:
        frames.append(frame := await link.get())
        if frame.envelope.event_type == EV_SESSION_CLOSED and frame.envelope.session_id == session:
            open_ways.discard(frame.subscription_id or "")
    return by_way(frames)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plays, st.booleans())
async def test_what_is_refused_and_who_reads_what_is_as_the_model_says(
    taken: list[tuple[Any, ...]], is_live: bool
) -> None:
    """`is_live`: subscriptions begin before anything is said; else they tell what is in the log."""
    async with opened() as hub:
        links = {name: await join(hub, name) for name in NAMES}
        play = Play(hub, links, await open_session(links["ann"], *MEMBERS[1:], kind="discussion"))
        if is_live:
            play.subscribe()
        for action, *args in taken:
            await getattr(play, action)(*args)
        if not is_live:
            play.subscribe()
        await play.check(is_live)
