"""What may be asked over a link, one function for each operation. Each checks in whose name it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError
from pydantic_core import to_json

from agent_common.protocol import validation_faults
from agent_common.protocol.hub import (
    MAX_NUMBER,
    MAX_RESUME,
    MAX_SECONDS,
    AccessDeniedError,
    AgentKind,
    HubUnavailable,
    Passport,
    ProtocolError,
    Resume,
    Rule,
    agent_card,
    check_patterns,
    dump_info,
)

from ..agents import Agent
from ..live_session import NOT_STORED
from ..parts import HubParts
from ..registry import AgentQuery
from ..sessions import Opening
from .caller import Caller
from .params import OfAgent, Operation, Params
from .task_operations import TASK_OPERATIONS

MAX_OPENING = 64 << 10
"""Most bytes of what a session is opened with: it is kept as long as the session, and sent to each who is invited."""


class _Register(Params):
    passport: Passport
    resume: Resume = Resume()
    rule: Rule = Rule()
    key: str = Field(default="", max_length=200)
    """Who has the key of the agent's last registration takes it over from a link that has not ended yet."""


class _SetRule(OfAgent):
    rule: Rule


class _SetResume(OfAgent):
    resume: Resume


class _GetAgent(Params):
    name: str


class _ListAgents(Params):
    capability: str | None = None
    text: str | None = None
    kind: AgentKind | None = None
    after: str = ""
    limit: int = Field(default=50, ge=1, le=500)


class _Open(OfAgent):
    type: str
    targets: tuple[str, ...] = Field(min_length=1, max_length=1000)
    knobs: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    ttl: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    parent: str | None = None
    key: str | None = Field(default=None, min_length=1, max_length=200)
    """The same key of the same agent opens one session."""


class _OfSession(OfAgent):
    session_id: str


class _ReadSession(Params):
    agent_id: str = ""
    """In whose name; empty: in that of each agent of the link that takes part."""
    session_id: str


class _Close(_ReadSession):
    """An operator closes it in nobody's name."""

    reason: str = Field(default="explicit_close", max_length=500)


class _ReadLog(_ReadSession):
    after: int = Field(default=0, ge=0, le=MAX_NUMBER)
    limit: int = Field(default=100, ge=1, le=500)


class _CanSend(Params):
    session_id: str
    agent_id: str


class _OfEnvelope(_OfSession):
    envelope_id: str
    sequence: int = Field(ge=0, le=MAX_NUMBER)


class _Sessions(OfAgent):
    after: str = ""
    limit: int = Field(default=100, ge=1, le=500)


async def _register(caller: Caller, params: _Register) -> Any:
    caller.check_name(params.passport.name)
    check_patterns(params.rule)
    _check_resume(params.resume)
    agent = await caller.hub.registry.register(
        params.passport,
        params.resume,
        params.rule,
        caller.endpoint,
        supersede=caller.rights.identity is not None,
        key=params.key,
    )
    caller.agent_ids.add(agent.agent_id)
    return describe(caller.hub, agent)


def _check_resume(resume: Resume) -> None:
    if (size := len(resume.model_dump_json().encode())) > MAX_RESUME:
        raise ProtocolError(f"resume: it may have {MAX_RESUME} bytes as JSON, and has {size}; shorten it")


async def _unregister(caller: Caller, params: OfAgent) -> Any:
    agent = caller.agent(params.agent_id)
    await caller.hub.registry.unregister(agent)
    caller.agent_ids.discard(agent.agent_id)  # also if it was disconnected meanwhile


async def _set_rule(caller: Caller, params: _SetRule) -> Any:
    check_patterns(params.rule)
    await caller.hub.registry.set_rule(caller.agent(params.agent_id), params.rule)


async def _set_resume(caller: Caller, params: _SetResume) -> Any:
    _check_resume(params.resume)
    await caller.hub.registry.set_resume(caller.agent(params.agent_id), params.resume)


async def _get_agent(caller: Caller, params: _GetAgent) -> Any:
    await caller.hub.registry.know([params.name])
    return describe(caller.hub, caller.find(params.name, await caller.visibility()))


async def _list_agents(caller: Caller, params: _ListAgents) -> Any:
    is_visible = await caller.visibility()
    query = AgentQuery(params.capability, params.text, params.kind, params.after, params.limit, is_visible)
    return describe_page(caller.hub, caller.hub.registry.list(query))


async def _open(caller: Caller, params: _Open) -> Any:
    creator = caller.agent(params.agent_id)
    hub = caller.hub
    if (size := len(to_json([params.knobs, params.labels]))) > MAX_OPENING:
        raise ProtocolError(f"knobs: they and the labels may have {MAX_OPENING} bytes as JSON, and have {size}")
    await hub.registry.know(params.targets)
    is_visible = await caller.visibility()
    for target in params.targets:
        caller.find(target, is_visible)
    parent = await hub.queries.info([creator.agent_id], params.parent) if params.parent is not None else None
    opening = Opening(params.type, params.targets, params.knobs, params.labels, params.ttl, params.key)
    session = await hub.lifecycle.find_opened(creator, opening) or hub.lifecycle.open(creator, opening, parent)
    await session.wait_decided()
    info = session.folded.info
    if info.is_over and not session.folded.opened_at:
        if info.close_reason == NOT_STORED:
            raise HubUnavailable("the hub cannot store this now", retry_after=1.0)
        raise ProtocolError(f"the session {info.session_id} was not opened: {info.close_reason}")
    return dump_info(info)


async def _close(caller: Caller, params: _Close) -> Any:
    agent = None if caller.reads_all and not params.agent_id else caller.agent(params.agent_id)
    session = await caller.hub.table.get(params.session_id)
    await caller.hub.lifecycle.close(session, params.reason, agent)


async def _info(caller: Caller, params: _ReadSession) -> Any:
    return dump_info(await caller.hub.queries.info(caller.readers(params.agent_id), params.session_id))


async def _read_log(caller: Caller, params: _ReadLog) -> Any:
    readers = caller.readers(params.agent_id)
    page = await caller.hub.queries.log(readers, params.session_id, params.after, params.limit)
    return {"envelopes": [one.model_dump(mode="json") for one in page.envelopes], "next": page.next}


async def _can_send(caller: Caller, params: _CanSend) -> Any:
    info = await caller.hub.queries.info(None, params.session_id)
    if not any(info.has(one) for one in caller.agent_ids):
        raise AccessDeniedError(f"no agent of this link takes part in the session {params.session_id}")
    return await caller.hub.queries.can_send(params.session_id, params.agent_id)


async def _turn(caller: Caller, params: _OfEnvelope) -> Any:
    """What an agent has done about an envelope before: the id of its reply, and the outcome of its turn."""
    agent_id = caller.agent(params.agent_id).agent_id
    queries = caller.hub.queries
    await queries.info([agent_id], params.session_id)
    return {
        "reply": await queries.reply_to(agent_id, params.session_id, params.envelope_id, params.sequence),
        "outcome": await queries.outcome(agent_id, params.session_id, params.sequence),
    }


async def _sessions(caller: Caller, params: _Sessions) -> Any:
    agent_id = caller.agent(params.agent_id).agent_id
    rows = await caller.hub.queries.sessions(agent_id, params.after, params.limit)
    return [{"session_id": row.session_id, "type": row.type, "state": row.state} for row in rows]


OPERATIONS: Mapping[str, Operation] = {
    "register": (_Register, _register),
    "unregister": (OfAgent, _unregister),
    "set_rule": (_SetRule, _set_rule),
    "set_resume": (_SetResume, _set_resume),
    "get_agent": (_GetAgent, _get_agent),
    "list_agents": (_ListAgents, _list_agents),
    "open": (_Open, _open),
    "close": (_Close, _close),
    "info": (_ReadSession, _info),
    "read_log": (_ReadLog, _read_log),
    "can_send": (_CanSend, _can_send),
    "turn": (_OfEnvelope, _turn),
    "sessions": (_Sessions, _sessions),
    **TASK_OPERATIONS,
}
"""By the name that a request has."""


async def run_operation(caller: Caller, op: str, params: dict[str, Any]) -> Any:
    """Do what a request asks for. Raises NetworkError."""
    known = OPERATIONS.get(op)
    if known is None:
        raise ProtocolError(f"op: {op} is none of {', '.join(OPERATIONS)}")
    kind, operation = known
    try:
        read = kind.model_validate(params)
    except ValidationError as error:
        faults = "; ".join(f"{field}: {message}" for field, message in validation_faults(error)[:5])
        raise ProtocolError(f"{op}: {faults}") from error
    return await operation(caller, read)


def describe(hub: HubParts, agent: Agent) -> dict[str, Any]:
    """What everybody may know of an agent."""
    return {
        "agent_id": agent.agent_id,
        "passport": agent.passport.model_dump(mode="json"),
        "resume": agent.resume.model_dump(mode="json"),
        "card": agent_card(agent.passport, agent.resume),
        "connected": agent.is_elsewhere or hub.delivery.endpoint(agent) is not None,
    }


def describe_page(hub: HubParts, agents: Sequence[Agent]) -> list[dict[str, Any]]:
    """The first of the agents, as many as an answer may have; at least one, if there is one."""
    page: list[dict[str, Any]] = []
    size = 0
    for agent in agents:
        described = describe(hub, agent)
        size += len(to_json(described))
        if page and size > hub.limits.page_bytes:
            break
        page.append(described)
    return page
