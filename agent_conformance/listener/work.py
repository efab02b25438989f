"""Rules for listeners: how work is given, and input that a reader must survive."""

from __future__ import annotations

import asyncio

from agent_common.protocol.work import HARD_FACTOR, MAX_BAD_LINES, encode
from agent_testing.channel import Frame, brief, is_request

from ..drive import NoWorkDriver
from ..guest import TesterAttachment, TesterGuest
from ..rules import ConformanceRules, NotApplicable, RuleBroken

WORK: ConformanceRules[TesterGuest] = ConformanceRules()


@WORK.rule("L08", "2.8", "An agent with one slot is given the next request after completed, not before.")
async def one_at_a_time(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    first = await guest.next_request(link)
    await guest.submit_work()
    mark = link.mark()
    if found := await link.wait_for(is_request, guest.options.quiet_seconds, mark):
        raise RuleBroken(f"{brief(found)} came while {first['request_id']} was worked on")
    await guest.finish(link, first)
    await guest.finish(link, await guest.next_request(link, submit=False))
    return "the second came after completed"


@WORK.rule("L09", "2.7", "The first result counts; another one for the same request changes nothing.")
async def first_result(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    about = {"request_id": request["request_id"]}
    await link.send(
        guest.signal_frame("accepting", **about),
        guest.result_frame(request, "first"),
        guest.result_frame(request, "second"),
    )
    await link.send(guest.signal_frame("completed", **about))
    await guest.run_request(link)
    record = await guest.expect_status(request["request_id"], "resulted")
    result: Frame = record.get("result") or {}
    content = result.get("content")
    if content != "first":
        raise RuleBroken(f"the record says {content!r}")
    return "the first is recorded"


@WORK.rule("L10", "2.7", "A request whose connection breaks before accepting is sent again, under the same id.")
async def resends_unaccepted(guest: TesterGuest) -> str:
    return await _check_resent(guest, accepted=False)


@WORK.rule("L11", "2.7", "A request whose connection breaks after accepting is sent again, under the same id.")
async def resends_accepted(guest: TesterGuest) -> str:
    return await _check_resent(guest, accepted=True)


@WORK.rule("L12", "2.2", "A result without LF when the connection ends is none, though it is whole.")
async def ignores_unfinished_line(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    await link.send(guest.signal_frame("accepting", request_id=request["request_id"]))
    await link.send_bytes(encode(guest.result_frame(request))[:-1])
    await guest.drop()
    link = (await guest.attach()).link
    await guest.finish(link, await guest.expect_resend(link, request))
    return "the request came again"


@WORK.rule("L34", "2.9", "A request that was denied is not sent again.")
async def denied(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    mark = link.mark()
    await link.send(guest.result_frame(request, status="denied", error="unverified_principal: a test"))
    if await link.wait_for(
        lambda frame: is_request(frame, request["request_id"]), guest.options.quiet_seconds * 3, mark
    ):
        raise RuleBroken("it was sent again")
    return "not sent again"


@WORK.rule("L13", "2.2", "Lines that are no frames are passed over; the session lives on.")
async def bad_lines(guest: TesterGuest) -> str:
    lines = (b"this is no JSON", b"[1, 2]", b'{"hello": "world"}', b'{"\xff": 1}', b"")
    link = (await guest.ensure_attachment(bad=len(lines))).link
    await link.send_bad_lines(*lines)
    await guest.run_request(link)
    return f"{len(lines)} bad lines, then a request"


@WORK.rule("L29", "2.2", "A line over the limit is skipped; the next one is read.")
async def long_line(guest: TesterGuest) -> str:
    attachment = await guest.ensure_attachment(bad=1)
    size = _max_line(attachment) + 10
    await attachment.link.send_bad_lines(b"x" * size)
    await guest.run_request(attachment.link)
    return f"{size} bytes, then a request"


@WORK.rule("L24", "3", "A result for a request that the agent was never given is not taken, and ends nothing.")
async def foreign(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    await link.send(guest.result_frame({"request_id": "somebody-elses"}))
    await guest.finish(link, request)
    await guest.run_request(link)
    return "the session continues"


@WORK.rule("L25", "3", "quarantined from an agent changes nothing.")
async def quarantined(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment()).link
    await link.send(guest.signal_frame("quarantined"))
    await asyncio.sleep(guest.options.quiet_seconds / 5)
    await guest.run_request(link)
    return "work came all the same"


@WORK.rule("L31", "2.2", f"More than {MAX_BAD_LINES} bad lines in a minute end the connection.")
async def too_many_bad_lines(guest: TesterGuest) -> str:
    link = (await guest.attach()).link
    for _ in range(MAX_BAD_LINES + 4):
        await link.send_bad_lines(b"bad")
    if await link.wait_for_end(guest.options.timeout) is None:
        raise RuleBroken(f"open after {MAX_BAD_LINES + 4} bad lines")
    return f"closed ({link.peer_ended})"


@WORK.rule("L30", "2.2", f"A line of more than {HARD_FACTOR} times the limit ends the connection.")
async def endless_line(guest: TesterGuest) -> str:
    attachment = await _send_endless_line(guest)
    if attachment.link.peer_ended is None:
        raise RuleBroken("open after an endless line")
    return f"closed ({attachment.link.peer_ended})"


@WORK.rule("L28", "1.2", "A listener that ends a connection ends both directions: the bridge takes half for all.")
async def closes_both_directions(guest: TesterGuest) -> str:
    attachment = await _send_endless_line(guest)
    if attachment.link.peer_ended is None:
        raise NotApplicable("the listener does not end the connection: see L30")
    if attachment.link.peer_ended == "eof" and await attachment.link.half_open():
        raise RuleBroken("it reads on after it has ended its sending")
    return attachment.link.peer_ended


async def _send_endless_line(guest: TesterGuest) -> TesterAttachment:
    attachment = await guest.attach()
    size = _max_line(attachment) * HARD_FACTOR + 1024
    await attachment.link.send_bytes(b"x" * size)
    await attachment.link.wait_for_end(guest.options.timeout)
    if attachment.link.peer_ended is None:
        await guest.drop()
    return attachment


async def _check_resent(guest: TesterGuest, *, accepted: bool) -> str:
    link = (await guest.ensure_attachment()).link
    request = await guest.next_request(link)
    if accepted:
        await link.send(guest.signal_frame("accepting", request_id=request["request_id"]))
        await asyncio.sleep(guest.options.quiet_seconds / 5)
    link = (await guest.attach(reset=True)).link
    again = await guest.expect_resend(link, request)
    if again.get("content") != request.get("content"):
        raise RuleBroken("with another content")
    await guest.finish(link, again)
    return "it came again" if not isinstance(guest.driver, NoWorkDriver) else "it came again, or one like it"


def _max_line(attachment: TesterAttachment) -> int:
    limit = int((attachment.welcome or {}).get("max_line", 1 << 20))
    if limit > 16 << 20:
        raise NotApplicable(f"the listener takes lines of {limit} bytes")
    return limit
