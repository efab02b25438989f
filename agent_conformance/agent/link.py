"""Rules for agents: broken connections and reconnecting."""

from __future__ import annotations

import asyncio

from agent_testing.channel import Frame, brief, is_result, is_signal

from ..host import AGENT_GONE, TesterHost, TesterSession
from ..rules import ConformanceRules, NotApplicable, RuleBroken

LINK: ConformanceRules[TesterHost] = ConformanceRules()
WATCH_SECONDS = 2.0
MOST_DIALS = 15
"""Dials within WATCH_SECONDS. A backoff from 100 ms to 5 s with jitter makes about seven."""


@LINK.rule("A60", "2.7", "An agent whose host has closed the connection dials again, and works on.")
async def redials_after_close(host: TesterHost) -> str:
    try:
        await host.ensure_session()
        session = await host.new_session()
    except NotApplicable:
        raise RuleBroken(f"{AGENT_GONE} within {host.options.timeout:g} s") from None
    await host.run_request(session.link, host.new_request())
    return f"ready on {session.link.name}"


@LINK.rule("A63", "2.4", "The first word after a break is mediation_broken.")
async def reports_mediation_broken(host: TesterHost) -> str:
    await host.ensure_session()
    session = await host.new_session(reset=True)
    if not session.before_ready or not is_signal(session.before_ready[0], "mediation_broken"):
        raise RuleBroken(f"came: {brief(session.before_ready[0]) if session.before_ready else 'ready'}")
    return str(session.before_ready[0].get("detail") or session.before_ready[0].get("error") or "mediation_broken")


@LINK.rule(
    "A62", "2.9", "Work during which the connection breaks still ends with one result, sent on a later connection."
)
async def completes_work_after_break(host: TesterHost) -> str:
    session = await host.ensure_session()
    request, _ = await host.start_slow_request(session.link)
    session = await _reconnected(host, request)
    result = await host.expect_result(session.link, request, 0, host.options.timeout * 3)
    await session.link.wait_for(lambda _: False, host.options.quiet_seconds)
    results = [frame for frame in session.link.frames if is_result(frame, request["request_id"])]
    if len(results) != 1 or result.get("status") not in ("completed", "yielded"):
        raise RuleBroken(f"came: {', '.join(map(brief, results))}")
    return brief(result)


@LINK.rule(
    "A61",
    "2.7",
    f"Against a host that hangs up at once the agent dials at most {MOST_DIALS} times in {WATCH_SECONDS:g} s.",
)
async def backs_off(host: TesterHost) -> str:
    await host.ensure_session()
    await host.drop()
    loop = asyncio.get_running_loop()
    until = loop.time() + WATCH_SECONDS
    dials = 0
    while (left := until - loop.time()) > 0:
        link = await host.next_connection(left)
        if link is not None:
            dials += 1
            await link.close()
    if dials > MOST_DIALS:
        raise RuleBroken(f"{dials} dials")
    return f"{dials} dials"


async def _reconnected(host: TesterHost, request: Frame) -> TesterSession:
    """Break the connection and return the next one, on which the host wants the request to continue."""
    with host.with_verdicts(request, "continue", "resend"):
        session = await host.new_session(reset=True)
    if session.negotiated and session.resume is None:
        raise NotApplicable("no resume came: see A44")
    named: Frame = session.resume or {}
    if request["request_id"] not in (*named.get("running", ()), *named.get("unacked", ())):
        await session.link.send(request)  # without the extensions a host sends the same request again
    return session
