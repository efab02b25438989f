"""What waits for a person in any agent: all agents are asked at the same time, and one that is silent holds up none."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from pydantic import ValidationError

from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.protocol import PendingList, first_page

from ..errors import InvalidRequest, RequestError
from ..fleet import Fleet
from .agent_api import AgentApi
from .schemas import AgentRequest, PendingPage, UnreachableAgent
from .view import View

DEADLINE_SECONDS = 5.0
"""Longest time for one agent's answer, and longest wait until it is asked."""
MOST_AT_ONCE = 64
MOST_OF_AGENT = 4
"""Agents that are asked at one time, over all callers, and requests to one agent: a slow one holds up only itself."""
MOST_LISTED = 1000
"""Rows of one agent in a list, over all its pages, so that those of others come."""
ANSWER_LIMITS = JsonLimits(4 << 20, max_values=100_000)
_CURSOR = re.compile(r"([0-9]{1,16})\.([0-9a-f]{16})\.((?:[0-9a-f]{8}-[0-9]{1,4}_)*)\.(.+)")
_FULL_BYTES = 512 * 1024
"""A page with more may end before it has all rows that were asked for: agents end one after a megabyte."""
_INVALID = "its answer is not a list of requests"


class FleetPosition(NamedTuple):
    """The position of a request in the list over all agents: the oldest first, those of one moment by workspace."""

    since: int
    workspace: str
    digest: str

    @classmethod
    def of(cls, row: AgentRequest) -> FleetPosition:
        since, digest = row.position
        return cls(since, row.workspace, digest)

    def after_in(self, workspace: str) -> str:
        """Return the `after` with which an agent lists what follows this position."""
        if workspace == self.workspace:
            return f"{self.since}.{self.digest}"
        return f"{self.since}." if workspace > self.workspace else f"{self.since + 1}."


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins."""

    position: FleetPosition
    listed: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many rows of each agent the pages before had, by `_key`."""

    def format(self) -> str:
        since, workspace, digest = self.position
        listed = "".join(f"{key}-{count}_" for key, count in self.listed.items())
        return f"{since}.{digest}.{listed}.{workspace}"


def parse_cursor(text: str) -> Cursor:
    """Parse the `next` of a page. Raises InvalidRequest."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise InvalidRequest("after: is not the `next` of a page", faults=[("after", "is not the `next` of a page")])
    listed = (part.split("-") for part in found[3].split("_") if part)
    return Cursor(FleetPosition(int(found[1]), found[4], found[2]), {key: int(count) for key, count in listed})


def _key(workspace_id: str) -> str:
    return hashlib.sha256(workspace_id.encode()).hexdigest()[:8]


class _NotAPage(Exception):
    """What an agent answered is not the page that it was asked for."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one agent has said."""

    rows: Sequence[AgentRequest] = ()
    """By their position."""
    more: bool = False
    failure: UnreachableAgent | None = None


class PendingRequests:
    """Lists the open questions and approvals of the agents that run."""

    def __init__(self, fleet: Fleet, api: AgentApi, deadline: float = DEADLINE_SECONDS) -> None:
        self._fleet = fleet
        self._api = api
        self._deadline = deadline
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._of_agent = WeakValueDictionary[str, asyncio.Semaphore]()

    async def page(self, view: View, workspace: str | None, limit: int, after: Cursor | None) -> PendingPage:
        """Return a page, oldest first, and the agents that did not answer. With a `workspace`, only that one is asked,
        whether it runs or not. Raises NotFound if there is none."""
        if workspace is not None:
            await self._fleet.get(workspace)
            asked = [workspace]
        else:
            asked = [name for name in self._fleet.running_ids() if view.includes(name)]
        listed = Counter(after.listed if after is not None else {})
        begin = after.position if after is not None else None
        answers = await asyncio.gather(*(self._ask(name, view, limit, begin, listed[_key(name)]) for name in asked))
        rows = sorted((row for answer in answers for row in answer.rows), key=FleetPosition.of)
        last_known = [FleetPosition.of(answer.rows[-1]) for answer in answers if answer.more and answer.rows]
        known_until = min(last_known, default=None)  # an agent with further rows may have some before those of others
        whole = rows if known_until is None else [row for row in rows if FleetPosition.of(row) <= known_until]
        page = first_page(whole, limit)
        more = bool(page) and (len(page) < len(rows) or known_until is not None)
        listed.update(_key(row.workspace) for row in page)
        failures = [answer.failure for answer in answers if answer.failure is not None]
        return PendingPage(
            pending=list(page),
            next=Cursor(FleetPosition.of(page[-1]), listed).format() if more else None,
            unreachable=failures,
        )

    async def _ask(
        self, workspace_id: str, view: View, limit: int, after: FleetPosition | None, listed: int
    ) -> _Answer:
        """Ask one agent, of which the pages before had so many rows."""
        if listed >= MOST_LISTED:
            return _failed(workspace_id, "too_many", f"more than {MOST_LISTED} of its requests wait")
        share = self._of_agent.setdefault(workspace_id, asyncio.Semaphore(MOST_OF_AGENT))
        try:
            async with asyncio.timeout(self._deadline) as deadline, share, self._slots:
                deadline.reschedule(asyncio.get_running_loop().time() + self._deadline)
                answer = await self._collect(workspace_id, view, limit, after)
        except TimeoutError:
            return _failed(workspace_id, "agent_unreachable", f"no answer within {self._deadline:g} s")
        except (JsonRefused, ValidationError):
            return _failed(workspace_id, "invalid_answer", _INVALID)
        except _NotAPage as error:
            return _failed(workspace_id, "invalid_answer", str(error))
        except RequestError as error:
            return _failed(workspace_id, error.code, error.message)
        left = MOST_LISTED - listed
        return _Answer(answer.rows[:left], more=answer.more or len(answer.rows) > left)

    async def _collect(self, workspace_id: str, view: View, limit: int, after: FleetPosition | None) -> _Answer:
        """Read a page with rows of the view. An agent is asked for one user or for all, so that a page of several users
        may have none of theirs; then the next one is read, and the other is not kept."""
        while True:
            page, size = await self._read(workspace_id, view, limit, after)
            rows = [AgentRequest.model_construct(**dict(row), workspace=workspace_id) for row in page.pending]
            _check_page([FleetPosition.of(row) for row in rows], limit, after)
            if page.next is not None and len(rows) < limit and size < _FULL_BYTES:
                raise _NotAPage("a page of it that is not the last has fewer requests than were asked for")
            shown = [row for row in rows if view.shows(row.user)]
            if shown or not rows or page.next is None:
                return _Answer(shown, more=page.next is not None)
            after = FleetPosition.of(rows[-1])

    async def _read(
        self, workspace_id: str, view: View, limit: int, after: FleetPosition | None
    ) -> tuple[PendingList, int]:
        """Return a page of an agent, and its bytes."""
        query = {"limit": limit} | ({} if after is None else {"after": after.after_in(workspace_id)})
        target = f"/pending?{urlencode(query)}"
        user = view.users.only if view.users else None
        raw = bytearray()
        async with self._api.get(workspace_id, target, self._deadline, user=user) as connection:
            while piece := await connection.read(self._deadline):
                raw += piece
                if len(raw) > ANSWER_LIMITS.max_bytes:
                    raise JsonRefused("too_large", "the answer is too long")
        return await run_by_size(len(raw), partial(_parse, bytes(raw))), len(raw)


def _parse(raw: bytes) -> PendingList:
    return PendingList.model_validate(read_json(raw, ANSWER_LIMITS))


def _check_page(positions: Sequence[FleetPosition], limit: int, after: FleetPosition | None) -> None:
    """Raise _NotAPage if these are too many, or not in order, or not behind `after`."""
    before = positions if after is None else [after, *positions]
    if len(positions) > limit:
        raise _NotAPage("it lists more requests than were asked for")
    if any(one >= other for one, other in pairwise(before)):
        raise _NotAPage("its requests are not in order")


def _failed(workspace_id: str, code: str, detail: str) -> _Answer:
    return _Answer(failure=UnreachableAgent(workspace=workspace_id, code=code, detail=detail[:300]))
