"""Rules for listeners: the extensions. They apply to listeners that answer an offer with welcome."""

from __future__ import annotations

from typing import Any

from agent_common.protocol.work import FrameFault, ResumeOk, new_sid, read_frame

from ..guest import TesterAttachment, TesterGuest
from ..link import Frame, TesterConnection, is_ctl, is_request
from ..rules import ConformanceRules, NotApplicable, RuleBroken

CONTROL: ConformanceRules[TesterGuest] = ConformanceRules()


@CONTROL.rule("L17", "2.3", "A result that is on the disk is acknowledged.")
async def acks(guest: TesterGuest) -> str:
    link = (await guest.attachment(ctl=True)).link
    await _acked(guest, link, await guest.round(link))
    return "ack"


@CONTROL.rule("L26", "2.3", "A ping is answered with a pong of the same number.")
async def pong(guest: TesterGuest) -> str:
    link = (await guest.attachment(ctl=True)).link
    mark = link.mark()
    await link.send({"ctl": "ping", "n": 4711})
    await link.expect(
        "a pong with n=4711",
        lambda frame: is_ctl(frame, "pong") and frame.get("n") == 4711,
        guest.options.timeout,
        mark,
    )
    return "pong"


@CONTROL.rule("L27", "2.3", "Control frames that the listener does not know are ignored.")
async def unknown_control(guest: TesterGuest) -> str:
    link = (await guest.attachment(ctl=True)).link
    await link.send(*({"ctl": "teleport", "to": number} for number in range(12)))
    await guest.round(link)
    return "12 unknown frames, then a request"


@CONTROL.rule("L36", "2.3", "resume is answered with resume_ok.")
async def resume_ok(guest: TesterGuest) -> str:
    attachment = await guest.attachment(ctl=True)
    if attachment.resume_ok is None:
        raise RuleBroken("no resume_ok came")
    try:
        assert isinstance(read_frame(attachment.resume_ok), ResumeOk)  # noqa: S101
    except FrameFault as fault:
        raise RuleBroken(str(fault)) from None
    return "resume_ok"


@CONTROL.rule("L37", "2.7", "A result that was lost with a connection is wanted on the next one.")
async def wants_the_result(guest: TesterGuest) -> str:
    request = await _accepted(guest)
    attachment = await _resumed(guest, unacked=[request["request_id"]])
    verdict = _verdict(attachment, request)
    if verdict not in ("resend", None):
        raise RuleBroken(f"the verdict is {verdict}")
    await _end(guest, attachment, request)
    return "resend"


@CONTROL.rule("L38", "2.7", "A result that the listener has is to be forgotten.")
async def has_the_result(guest: TesterGuest) -> str:
    link = (await guest.attachment(ctl=True)).link
    request = await guest.round(link)
    try:
        await _acked(guest, link, request)
    except RuleBroken:
        raise NotApplicable("no ack came: see L17") from None
    attachment = await _resumed(guest, unacked=[request["request_id"]])
    if (verdict := _verdict(attachment, request)) != "forget":
        raise RuleBroken(f"the verdict is {verdict}")
    return "forget"


@CONTROL.rule("L41", "2.7", "Work that has outlived a break goes on, and is not given anew.")
async def goes_on(guest: TesterGuest) -> str:
    request = await _accepted(guest)
    attachment = await _resumed(guest, running=[request["request_id"]])
    verdict = _verdict(attachment, request)
    if verdict not in ("continue", None):
        raise RuleBroken(f"the verdict is {verdict}")
    await _end(guest, attachment, request)
    return "continue"


@CONTROL.rule("L32", "2.8", "An agent that has been silent for three heartbeats is left.")
async def leaves_the_dead(guest: TesterGuest) -> str:
    attachment = await guest.attachment(ctl=True)
    seconds = float((attachment.welcome or {}).get("heartbeat_s", 15)) * 3
    if seconds > guest.options.timeout * 3:
        raise NotApplicable(f"that takes {seconds:g} s: raise --timeout")
    guest.pongs = False
    try:
        if await attachment.link.ended(seconds + guest.options.timeout) is None:
            raise RuleBroken(f"the connection is open {seconds + guest.options.timeout:g} s later")
    finally:
        guest.pongs = True
    return f"closed ({attachment.link.left})"


@CONTROL.rule(
    "L22", "2.7", "A newcomer that has proved itself takes the place of the older attachment, which is ended."
)
async def supersedes(guest: TesterGuest) -> str:
    elder = await guest.attachment(ctl=True)
    newcomer = await guest.attach(keep=True)
    if await elder.link.ended(guest.options.timeout) is None:
        raise RuleBroken("the older connection is still open")
    await guest.round(newcomer.link)
    return f"epoch {elder.epoch}, then {newcomer.epoch}"


@CONTROL.rule("L18", "3", "An agent with a wrong MAC is not attached.")
async def wrong_mac(guest: TesterGuest) -> str:
    await _challenged(guest)
    return await _kept_out(guest, key=b"not the key")


@CONTROL.rule("L19", "3", "A MAC of an earlier attachment is worth nothing.")
async def replayed_mac(guest: TesterGuest) -> str:
    await _challenged(guest)
    return await _kept_out(guest, replay=guest.macs[-1])


@CONTROL.rule("L20", "3", "An agent that does not answer the challenge is given no work.")
async def no_answer(guest: TesterGuest) -> str:
    await _challenged(guest)
    await guest.drop()
    link = await guest.dial()
    offered = f"med/1 win=1 max=1048576 sid={new_sid()}"
    await link.send(guest.signal("ready", detail=offered))
    return await _no_work(guest, link)


@CONTROL.rule("L21", "3", "A second connection that proves nothing does not end the session.")
async def keeps_the_first(guest: TesterGuest) -> str:
    first = await _challenged(guest)
    link = await guest.dial()
    await guest.say_ready(link, key=b"not the key")
    await link.ended(guest.options.quiet)
    await link.close()
    if first.link.left is not None:
        raise RuleBroken(f"the session was ended ({first.link.left})")
    await guest.round(first.link)
    return "the session lives on"


async def _challenged(guest: TesterGuest) -> TesterAttachment:
    attachment = await guest.attachment(ctl=True)
    if not (attachment.welcome or {}).get("challenge"):
        raise NotApplicable("the listener asks for no proof")
    return attachment


async def _kept_out(guest: TesterGuest, key: bytes | None = None, replay: tuple[str, str] | None = None) -> str:
    await guest.drop()
    link = await guest.dial()
    known = len(guest.macs)
    attachment = await guest.say_ready(link, key=key, replay=replay)
    del guest.macs[known:]
    if attachment.resume_ok is not None:
        guest.epochs.pop()
        await link.close()
        raise RuleBroken("it was attached")
    return await _no_work(guest, link)


async def _no_work(guest: TesterGuest, link: TesterConnection) -> str:
    try:
        await guest.submitted()
        await guest.no_request(link)
    finally:
        await link.close()
    return f"kept out ({link.left or 'no work'})"


async def _accepted(guest: TesterGuest) -> Frame:
    """A request that was accepted before the connection broke."""
    link = (await guest.attachment(ctl=True)).link
    request = await guest.given(link)
    await link.send(guest.signal("accepting", request_id=request["request_id"]), {"ctl": "ping", "n": 1})
    await link.find(lambda frame: is_ctl(frame, "pong"), guest.options.quiet)
    return request


async def _resumed(guest: TesterGuest, **resume: Any) -> TesterAttachment:
    attachment = await guest.attach(reset=True, **resume)
    if attachment.resume_ok is None:
        await guest.drop()
        raise NotApplicable("no resume_ok came: see L36")
    return attachment


async def _end(guest: TesterGuest, attachment: TesterAttachment, request: Frame) -> None:
    """Sends the result of a request that was not given anew. Raises RuleBroken when it is given all the same."""
    link, name = attachment.link, request["request_id"]
    await link.send(guest.result(request), guest.signal("completed", request_id=name))
    await guest.round(link)
    if any(is_request(frame, name) for frame in link.frames):
        raise RuleBroken("it was given anew")


def _verdict(attachment: TesterAttachment, request: Frame) -> str | None:
    verdicts: Frame = (attachment.resume_ok or {}).get("verdicts") or {}
    return verdicts.get(request["request_id"])


async def _acked(guest: TesterGuest, link: TesterConnection, request: Frame) -> None:
    name = request["request_id"]
    await link.expect(
        f"an ack of {name}",
        lambda frame: is_ctl(frame, "ack") and frame.get("request_id") == name,
        guest.options.timeout,
    )
