"""The agents that are registered, and what the hub knows of each while it runs."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator

from agent_common.clock import Clock
from agent_common.protocol.hub import (
    NotFoundError,
    Passport,
    Rate,
    RateLimited,
    Resume,
    Rule,
    allows,
)

from ..database import owner_of_name
from .opened_sessions import OpenedSessions
from .store import AgentRow


class RateBucket:
    """Tokens that fill up with time; each envelope takes one."""

    __slots__ = ("_at", "_clock", "_per_second", "_size", "_tokens")

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._clock = clock
        self._per_second = rate.per_minute / 60
        self._size = float(rate.burst)
        self._tokens = self._size
        self._at = clock.monotonic()

    def take(self) -> None:
        """Take a token. Raises RateLimited if there is none."""
        now = self._clock.monotonic()
        self._tokens = min(self._size, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            wait = (1 - self._tokens) / self._per_second
            raise RateLimited(f"your rule allows {self._per_second * 60:g} envelopes a minute", retry_after=wait)
        self._tokens -= 1


class Agent:
    """A registered agent."""

    __slots__ = (
        "agent_id",
        "bucket",
        "fence",
        "is_elsewhere",
        "is_open_to_all",
        "key",
        "opened",
        "passport",
        "registered_at",
        "resume",
        "rule",
    )

    def __init__(self, row: AgentRow, clock: Clock) -> None:
        self.agent_id = row.agent_id
        self.registered_at = row.registered_at
        self.passport = Passport.model_validate_json(row.passport)
        self.resume = Resume.model_validate_json(row.resume)
        self.key = ""
        """Secret of its last registration, as long as this hub runs; empty: it has none."""
        self.fence: int | None = None
        """Number of this hub's lease of it; 0: the hub has none. None: the hub shares its database with no other."""
        self.is_elsewhere = False
        """Whether another hub delivers to it."""
        self.opened = OpenedSessions()
        self.bucket: RateBucket | None = None
        self.set_rule(Rule.model_validate_json(row.rule), clock)

    def set_rule(self, rule: Rule, clock: Clock) -> None:
        """Follow this rule from now on."""
        if rule.rate is None:
            self.bucket = None
        elif self.bucket is None or rule.rate != self.rule.rate:  # else who comes back would have a full one
            self.bucket = RateBucket(rule.rate, clock)
        self.rule = rule
        self.is_open_to_all = "*" in rule.access.inbound_from

    @property
    def name(self) -> str:
        return self.passport.name

    @property
    def is_held(self) -> bool:
        """Whether this hub is the one that may deliver to it."""
        return self.fence is None or self.fence > 0

    def take_over(self, row: AgentRow, clock: Clock) -> None:
        """Become what another hub has written."""
        self.passport = Passport.model_validate_json(row.passport)
        self.resume = Resume.model_validate_json(row.resume)
        rule = Rule.model_validate_json(row.rule)
        if rule != self.rule:
            self.set_rule(rule, clock)

    def has_key(self, key: str) -> bool:
        """Whether its last registration had this secret."""
        return bool(self.key) and hmac.compare_digest(self.key.encode(), key.encode())

    def accepts(self, sender: Agent) -> bool:
        """Whether its rule lets another send to it."""
        return self.is_open_to_all or allows(self.rule.access.inbound_from, sender.name)

    def require_space(self, session_id: str, size: int, most: int) -> None:
        """Raise RateLimited if a session that it has created grows to this size, and all that are open beyond `most`
        bytes."""
        if self.opened.has_grown(session_id, size) and self.opened.total_with(session_id, size) > most:
            fix = "close some, or delete variables"
            raise RateLimited(f"the open sessions of {self.name} may hold {most} bytes with their variables; {fix}")

    def to_row(self) -> AgentRow:
        """The row of its present state."""
        return AgentRow(
            self.agent_id,
            self.name,
            self.passport.model_dump_json(),
            self.resume.model_dump_json(),
            self.rule.model_dump_json(),
            self.registered_at,
        )


class Agents:
    """All registered agents, by id and name."""

    def __init__(self) -> None:
        self._by_id: dict[str, Agent] = {}
        self._by_name: dict[str, Agent] = {}

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._by_id.values())

    def add(self, agent: Agent) -> None:
        self._by_id[agent.agent_id] = self._by_name[agent.name] = agent

    def remove(self, agent: Agent) -> None:
        self._by_id.pop(agent.agent_id, None)
        if self._by_name.get(agent.name) is agent:  # else another hub has registered the name
            del self._by_name[agent.name]

    def find(self, name_or_id: str) -> Agent | None:
        """The agent of that id or name."""
        return self._by_id.get(name_or_id) or self._by_name.get(name_or_id)

    def get(self, name_or_id: str) -> Agent:
        """The agent of that id or name. Raises NotFoundError."""
        agent = self.find(name_or_id)
        if agent is None:
            raise NotFoundError(f"no agent {name_or_id} is registered")
        return agent


def new_agent_id(name: str) -> str:
    """Return an id that no agent has, nor had. It contains a sign that no name may have."""
    return f"{owner_of_name(name)}{secrets.token_hex(8)}"
