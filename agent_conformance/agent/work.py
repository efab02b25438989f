"""Rules for agents: how requests are answered."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from agent_common.protocol import is_object
from agent_testing.channel import ExpectationFailed, Frame, PeerConnection, brief, is_ctl, is_result, is_signal

from ..host import TesterHost
from ..rules import ConformanceRules, NotApplicable, RuleBroken

WORK: ConformanceRules[TesterHost] = ConformanceRules()
_UNSUPPORTED = re.compile(r"unsupported_bound:max_egress_bytes\b")


@WORK.rule("A10", "2.4", "A request is answered with accepting, its result and completed, in this order.", loose=True)
async def in_order(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    mark = link.mark()
    await host.run_request(link, request)
    await host.expect_signal(link, "completed", request, mark)
    kinds = [_frame_kind(frame) for frame in host.frames_about(link, request, mark)]
    firsts = sorted(set(kinds), key=kinds.index)
    if firsts != ["accepting", "result", "completed"]:
        raise RuleBroken(f"came: {', '.join(kinds)}")
    return ", ".join(kinds)


@WORK.rule("A11", "2.1", "The result brings back the audit_ref of its request.")
async def returns_audit_ref(host: TesterHost) -> str:
    request = host.new_request()
    result = await host.run_request((await host.ensure_session()).link, request)
    if result.get("audit_ref") != request["audit_ref"]:
        raise RuleBroken(f"sent {request['audit_ref']!r}, came {result.get('audit_ref')!r}")
    return str(result["audit_ref"])


@WORK.rule("A12", "2.4", "There is exactly one result, and nothing about the request after completed.", loose=True)
async def one_result(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    mark = link.mark()
    await host.run_request(link, request)
    await asyncio.sleep(host.options.quiet_seconds)
    kinds = [_frame_kind(frame) for frame in host.frames_about(link, request, mark)]
    if kinds.count("result") != 1 or kinds.count("accepting") > 1 or kinds.count("completed") > 1:
        raise RuleBroken(f"came: {', '.join(kinds)}")
    return "one result"


@WORK.rule(
    "A14", "2.3", "Where the offer is not answered, there is work without control frames, but not for a key's owner."
)
async def without_extensions(host: TesterHost) -> str:
    session = await host.new_session(ignore_offer=True)
    if session.offer is None:
        raise NotApplicable("the agent offers no extensions")
    if host.options.key is None:
        await host.run_request(session.link, host.new_request())
        await host.drop()
        return "completed"
    request = host.new_request()
    await session.link.send(request)
    taken = await session.link.wait_for(
        lambda frame: frame.get("request_id") == request["request_id"], host.options.quiet_seconds
    )
    await host.drop()
    if taken is not None:
        raise RuleBroken("the agent has a key, and took work from a host that has not proved that it has it, too")
    return "none, as the host has not proved who it is"


@WORK.rule("A13", "2.3", "After welcome the agent bears the identity that it was given.")
async def identity(host: TesterHost) -> str:
    link = (await host.ensure_session(ctl=True)).link
    request = host.new_request()
    mark = link.mark()
    await host.run_request(link, request)
    for frame in host.frames_about(link, request, mark):
        if "signal" in frame and frame.get("agent_id") != host.options.agent_id:
            raise RuleBroken(f"welcome said {host.options.agent_id!r}, {brief(frame)} says {frame.get('agent_id')!r}")
    return host.options.agent_id


@WORK.rule("A16", "2.9", "A request of a principal that is not verified is denied.")
async def unverified(host: TesterHost) -> str:
    result, _ = await _check_denied(
        host, host.new_request(principal={"name": "eve", "kind": "user", "verified": False})
    )
    return str(result.get("error"))


@WORK.rule("A15", "2.4", "What is refused before its start has a result alone: no accepting, no completed.")
async def refused_alone(host: TesterHost) -> str:
    request = host.new_request(principal={"name": "eve", "kind": "user", "verified": False})
    try:
        result, frames = await _check_denied(host, request)
    except ExpectationFailed:
        raise NotApplicable("the agent does not refuse: see A16") from None
    if len(frames) > 1:
        raise RuleBroken(f"came: {', '.join(map(brief, frames))}")
    return str(result.get("status"))


@WORK.rule("A17", "2.7", "The same request while it runs is joined: accepting again, and one result.")
async def joins_running_request(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request, mark = await host.start_slow_request(link)
    again = link.mark()
    await link.send(request)
    await host.expect_signal(link, "accepting", request, again)
    await host.expect_result(link, request, mark, host.options.timeout * 3)
    await host.expect_signal(link, "completed", request, mark)
    await link.wait_for(lambda frame: is_result(frame, request["request_id"]), host.options.quiet_seconds, link.mark())
    results = [frame for frame in link.frames[mark:] if is_result(frame, request["request_id"])]
    if len(results) != 1:
        raise RuleBroken(f"{len(results)} results came")
    return "accepting twice, one result"


@WORK.rule("A18", "2.7", "The same request when it is done gets the stored result again, and completed.")
async def resends_stored_result(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    first = await host.run_request(link, request)
    mark = link.mark()
    await link.send(request)
    again = await host.expect_result(link, request, mark)
    await host.expect_signal(link, "completed", request, mark)
    for name in ("status", "content", "error", "completed_at"):
        if first.get(name) != again.get(name):
            raise RuleBroken(
                f"{name} was {str(first.get(name))[:60]!r} and is {str(again.get(name))[:60]!r}: it ran again"
            )
    return "the same result"


@WORK.rule("A19", "2.7", "Other work under an id that was used is failed with request_id_conflict.")
async def conflict(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    await host.run_request(link, request)
    mark = link.mark()
    await link.send({**request, "content": f"not {request['content']}"})
    result = await host.expect_result(link, request, mark)
    if result.get("status") != "failed" or not str(result.get("error")).startswith("request_id_conflict"):
        raise RuleBroken(f"came: {brief(result)}")
    return str(result["error"])


@WORK.rule(
    "A20", "2.9", "A request for a version of constraints that the agent has not is denied, with constraints_outdated."
)
async def outdated(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    mark = link.mark()
    result, _ = await _check_denied(host, host.new_request(constraints_version=host.constraints_version + 1000))
    await link.expect(
        "constraints_outdated", lambda frame: is_signal(frame, "constraints_outdated"), host.options.quiet_seconds, mark
    )
    return str(result.get("error"))


@WORK.rule("A21", "2.7", "That refusal is not kept: the same id runs when the version fits.")
async def outdated_retry(host: TesterHost) -> str:
    request = host.new_request(constraints_version=host.constraints_version + 1000)
    try:
        await _check_denied(host, request)
    except ExpectationFailed:
        raise NotApplicable("the agent does not refuse: see A20") from None
    await host.run_request(
        (await host.ensure_session()).link, {**request, "constraints_version": host.constraints_version}
    )
    return "completed"


@WORK.rule("A22", "2.9", "A bound that the agent cannot enforce is denied with unsupported_bound and its name.")
async def unsupported_bound(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request(bounds={"max_egress_bytes": 1_000_000})
    mark = link.mark()
    await link.send(request)
    result = await host.expect_result(link, request, mark, host.options.timeout * 3)
    await host.expect_signal(link, "completed", request, mark) if _was_accepted(link, request, mark) else None
    if result.get("status") == "denied" and _UNSUPPORTED.match(str(result.get("error"))):
        return str(result["error"])
    usages: list[Any] = [frame.get("usage") for frame in link.frames[mark:] if is_ctl(frame, "progress")]
    if any(is_object(one) and one.get("egress_bytes") is not None for one in usages):
        return "it counts egress_bytes"
    raise RuleBroken(f"max_egress_bytes was taken, and no progress ever counted them: {brief(result)}")


@WORK.rule("A23", "2.9", "max_duration_seconds ends the work as yielded.")
async def duration(host: TesterHost) -> str:
    if host.options.slow is None:
        raise NotApplicable("needs a request that takes two seconds: give its content with --slow")
    return await _check_yielded(host, host.new_request(host.options.slow, bounds={"max_duration_seconds": 1}))


@WORK.rule("A24", "2.9", "max_tokens ends the work as yielded.")
async def tokens(host: TesterHost) -> str:
    return await _check_yielded(host, host.new_request(bounds={"max_tokens": 1}))


@WORK.rule("A25", "2.9", "max_tool_calls 0 allows no call of a tool.")
async def tool_calls(host: TesterHost) -> str:
    if host.options.tool is None:
        raise NotApplicable("needs a request that calls a tool: give its content with --tool")
    link = (await host.ensure_session(ctl=True)).link
    request = host.new_request(host.options.tool, bounds={"max_tool_calls": 0})
    mark = link.mark()
    await link.send(request)
    result = await host.expect_result(link, request, mark, host.options.timeout * 3)
    usages: list[Any] = [frame.get("usage", {}) for frame in link.frames[mark:] if is_ctl(frame, "progress")]
    if (most := max((int(one.get("tool_calls") or 0) for one in usages if is_object(one)), default=0)) > 0:
        raise RuleBroken(f"{most} calls were counted")
    if result.get("status") == "completed" and not usages:
        raise RuleBroken("completed, and no progress ever counted the calls")
    return brief(result)


async def _check_yielded(host: TesterHost, request: Frame) -> str:
    link = (await host.ensure_session()).link
    mark = link.mark()
    await link.send(request)
    result = await host.expect_result(link, request, mark, host.options.timeout * 3)
    if result.get("status") != "yielded":
        raise RuleBroken(f"came: {brief(result)}")
    return brief(result)


async def _check_denied(host: TesterHost, request: Frame) -> tuple[Frame, list[Frame]]:
    """Return the result of a request that must be denied, and all frames about it. Raises RuleBroken."""
    link = (await host.ensure_session()).link
    mark = link.mark()
    await link.send(request)
    result = await host.expect_result(link, request, mark, host.options.timeout * 3)
    await asyncio.sleep(host.options.quiet_seconds)
    if result.get("status") != "denied":
        raise RuleBroken(f"came: {brief(result)}")
    about = host.frames_about(link, request, mark)
    return result, [frame for frame in about if not is_signal(frame, "constraints_outdated")]


def _was_accepted(link: PeerConnection, request: Frame, mark: int) -> bool:
    return any(is_signal(frame, "accepting", request["request_id"]) for frame in link.frames[mark:])


def _frame_kind(frame: Frame) -> str:
    return "result" if is_result(frame) else str(frame.get("signal") or frame.get("ctl"))
