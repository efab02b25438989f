"""Rules for agents: breaks, and what comes after them."""

from __future__ import annotations

import asyncio

from ..host import GONE, TesterHost, TesterSession
from ..link import Frame, brief, is_result, is_signal
from ..rules import ConformanceRules, NotApplicable, RuleBroken

LINK: ConformanceRules[TesterHost] = ConformanceRules()
WATCHED = 2.0
MOST_DIALS = 15
"""In two seconds. Backing off from 100 ms to 5 s with jitter makes about seven."""


@LINK.rule("A60", "2.7", "An agent whose host has closed the connection dials again, and works on.")
async def comes_back(host: TesterHost) -> str:
    try:
        await host.session()
        session = await host.fresh()
    except NotApplicable:
        raise RuleBroken(f"{GONE} within {host.options.timeout:g} s") from None
    await host.done(session.link, host.request())
    return f"ready on {session.link.name}"


@LINK.rule("A63", "2.4", "The first word after a break is mediation_broken.")
async def tells_of_the_break(host: TesterHost) -> str:
    await host.session()
    session = await host.fresh(reset=True)
    if not session.before or not is_signal(session.before[0], "mediation_broken"):
        raise RuleBroken(f"came: {brief(session.before[0]) if session.before else 'ready'}")
    return str(session.before[0].get("detail") or session.before[0].get("error") or "mediation_broken")


@LINK.rule(
    "A62", "2.9", "Work during which the connection breaks still ends with one result, sent on a later connection."
)
async def survives_a_break(host: TesterHost) -> str:
    session = await host.session()
    request, _ = await host.started_slowly(session.link)
    session = await _back(host, request)
    result = await host.result(session.link, request, 0, host.options.timeout * 3)
    await session.link.find(lambda _: False, host.options.quiet)
    results = [frame for frame in session.link.frames if is_result(frame, request["request_id"])]
    if len(results) != 1 or result.get("status") not in ("completed", "yielded"):
        raise RuleBroken(f"came: {', '.join(map(brief, results))}")
    return brief(result)


@LINK.rule(
    "A61", "2.7", f"Against a host that hangs up at once the agent dials at most {MOST_DIALS} times in {WATCHED:g} s."
)
async def backs_off(host: TesterHost) -> str:
    await host.session()
    await host.drop()
    loop = asyncio.get_running_loop()
    until, dials = loop.time() + WATCHED, 0
    while (left := until - loop.time()) > 0:
        link = await host.dialed(left)
        if link is not None:
            dials += 1
            await link.close()
    if dials > MOST_DIALS:
        raise RuleBroken(f"{dials} dials")
    return f"{dials} dials"


async def _back(host: TesterHost, request: Frame) -> TesterSession:
    """The next connection, on which the host wants the request to go on."""
    with host.wanting(request, "continue", "resend"):
        session = await host.fresh(reset=True)
    if session.negotiated and session.resume is None:
        raise NotApplicable("no resume came: see A44")
    named: Frame = session.resume or {}
    if request["request_id"] not in (*named.get("running", ()), *named.get("unacked", ())):
        await session.link.send(request)  # without the extensions a host sends the same request again
    return session
