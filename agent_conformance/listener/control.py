"""Rules for listeners: the extensions. They apply to listeners that answer an offer with welcome."""

from __future__ import annotations

from typing import Any

from agent_common.protocol.work import FrameFault, ResumeOk, new_sid, read_frame, verify_host_mac
from agent_testing.channel import ExpectationFailed, Frame, PeerConnection, is_ctl, is_request

from ..guest import TesterAttachment, TesterGuest
from ..rules import ConformanceRules, NotApplicable, RuleBroken

CONTROL: ConformanceRules[TesterGuest] = ConformanceRules()


@CONTROL.rule("L17", "2.3", "A result that is on the disk is acknowledged.")
async def acks(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment(ctl=True)).link
    await _expect_ack(guest, link, await guest.run_request(link))
    return "ack"


@CONTROL.rule("L26", "2.3", "A ping is answered with a pong of the same number.")
async def answers_ping(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment(ctl=True)).link
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
    link = (await guest.ensure_attachment(ctl=True)).link
    await link.send(*({"ctl": "teleport", "to": number} for number in range(12)))
    await guest.run_request(link)
    return "12 unknown frames, then a request"


@CONTROL.rule("L36", "2.3", "resume is answered with resume_ok.")
async def resume_ok(guest: TesterGuest) -> str:
    attachment = await guest.ensure_attachment(ctl=True)
    if attachment.resume_ok is None:
        raise RuleBroken("no resume_ok came")
    try:
        assert isinstance(read_frame(attachment.resume_ok), ResumeOk)  # noqa: S101
    except FrameFault as fault:
        raise RuleBroken(str(fault)) from None
    return "resume_ok"


@CONTROL.rule("L37", "2.7", "A result that was lost with a connection is wanted on the next one.")
async def wants_lost_result(guest: TesterGuest) -> str:
    request = await _accepted_request(guest)
    attachment = await _reattach(guest, unacked=[request["request_id"]])
    verdict = _verdict(attachment, request)
    if verdict not in ("resend", None):
        raise RuleBroken(f"the verdict is {verdict}")
    await _send_result(guest, attachment, request)
    return "resend"


@CONTROL.rule("L38", "2.7", "A result that the listener has is to be forgotten.")
async def forgets_known_result(guest: TesterGuest) -> str:
    link = (await guest.ensure_attachment(ctl=True)).link
    request = await guest.run_request(link)
    try:
        await _expect_ack(guest, link, request)
    except ExpectationFailed:
        raise NotApplicable("no ack came: see L17") from None
    attachment = await _reattach(guest, unacked=[request["request_id"]])
    if (verdict := _verdict(attachment, request)) != "forget":
        raise RuleBroken(f"the verdict is {verdict}")
    return "forget"


@CONTROL.rule("L41", "2.7", "Work that has outlived a break goes on, and is not given anew.")
async def continues_running_work(guest: TesterGuest) -> str:
    request = await _accepted_request(guest)
    attachment = await _reattach(guest, running=[request["request_id"]])
    verdict = _verdict(attachment, request)
    if verdict not in ("continue", None):
        raise RuleBroken(f"the verdict is {verdict}")
    await _send_result(guest, attachment, request)
    return "continue"


@CONTROL.rule("L32", "2.8", "An agent that has been silent for three heartbeats is left.")
async def closes_silent_agent(guest: TesterGuest) -> str:
    attachment = await guest.ensure_attachment(ctl=True)
    seconds = float((attachment.welcome or {}).get("heartbeat_s", 15)) * 3
    if seconds > guest.options.timeout * 3:
        raise NotApplicable(f"that takes {seconds:g} s: raise --timeout")
    guest.send_pongs = False
    try:
        if await attachment.link.wait_for_end(seconds + guest.options.timeout) is None:
            raise RuleBroken(f"the connection is open {seconds + guest.options.timeout:g} s later")
    finally:
        guest.send_pongs = True
    return f"closed ({attachment.link.peer_ended})"


@CONTROL.rule(
    "L22", "2.7", "A newcomer that has proved itself takes the place of the older attachment, which is ended."
)
async def newer_attachment_wins(guest: TesterGuest) -> str:
    elder = await guest.ensure_attachment(ctl=True)
    newcomer = await guest.attach(keep_previous=True)
    if await elder.link.wait_for_end(guest.options.timeout) is None:
        raise RuleBroken("the older connection is still open")
    await guest.run_request(newcomer.link)
    return f"epoch {elder.epoch}, then {newcomer.epoch}"


@CONTROL.rule("L18", "3", "An agent with a wrong MAC is not attached.")
async def wrong_mac(guest: TesterGuest) -> str:
    await _attach_with_challenge(guest)
    return await _check_rejected(guest, key=b"not the key")


@CONTROL.rule("L19", "3", "A MAC of an earlier attachment is worth nothing.")
async def replayed_mac(guest: TesterGuest) -> str:
    await _attach_with_challenge(guest)
    return await _check_rejected(guest, replay=guest.macs[-1])


@CONTROL.rule("L20", "3", "An agent that does not answer the challenge is given no work.")
async def unanswered_challenge(guest: TesterGuest) -> str:
    await _attach_with_challenge(guest)
    await guest.drop()
    link = await guest.dial()
    offered = f"med/1 win=1 max=1048576 sid={new_sid()}"
    await link.send(guest.signal_frame("ready", detail=offered))
    return await _check_no_work(guest, link)


@CONTROL.rule("L21", "3", "A second connection that proves nothing does not end the session.")
async def unproven_displaces_nothing(guest: TesterGuest) -> str:
    first = await _attach_with_challenge(guest)
    link = await guest.dial()
    await guest.send_ready(link, key=b"not the key")
    await link.wait_for_end(guest.options.quiet_seconds)
    await link.close()
    if first.link.peer_ended is not None:
        raise RuleBroken(f"the session was ended ({first.link.peer_ended})")
    await guest.run_request(first.link)
    return "the session continues"


@CONTROL.rule("L48", "3", "A welcome with a challenge has the host's own proof that it has the key.")
async def proves_itself(guest: TesterGuest) -> str:
    attachment = await _attach_with_challenge(guest)
    welcome = attachment.welcome or {}
    key = guest.options.key or b""
    proved = verify_host_mac(
        welcome.get("mac"),
        key,
        challenge=str(welcome["challenge"]),
        sid=attachment.sid,
        agent_id=str(welcome.get("agent_id")),
        epoch=attachment.epoch,
    )
    if not proved:
        raise RuleBroken(f"its mac is {welcome.get('mac')!r}")
    return "its MAC is right"


async def _attach_with_challenge(guest: TesterGuest) -> TesterAttachment:
    attachment = await guest.ensure_attachment(ctl=True)
    if not (attachment.welcome or {}).get("challenge"):
        raise NotApplicable("the listener asks for no proof")
    return attachment


async def _check_rejected(guest: TesterGuest, key: bytes | None = None, replay: tuple[str, str] | None = None) -> str:
    await guest.drop()
    link = await guest.dial()
    known = len(guest.macs)
    attachment = await guest.send_ready(link, key=key, replay=replay)
    del guest.macs[known:]
    if attachment.resume_ok is not None:
        guest.epochs.pop()
        await link.close()
        raise RuleBroken("it was attached")
    return await _check_no_work(guest, link)


async def _check_no_work(guest: TesterGuest, link: PeerConnection) -> str:
    try:
        await guest.submit_work()
        await guest.expect_no_request(link)
    finally:
        await link.close()
    return f"kept out ({link.peer_ended or 'no work'})"


async def _accepted_request(guest: TesterGuest) -> Frame:
    """Return a request that the tester has accepted, so that the rule can break the connection."""
    link = (await guest.ensure_attachment(ctl=True)).link
    request = await guest.next_request(link)
    await link.send(guest.signal_frame("accepting", request_id=request["request_id"]), {"ctl": "ping", "n": 1})
    await link.wait_for(lambda frame: is_ctl(frame, "pong"), guest.options.quiet_seconds)
    return request


async def _reattach(guest: TesterGuest, **resume: Any) -> TesterAttachment:
    attachment = await guest.attach(reset=True, **resume)
    if attachment.resume_ok is None:
        await guest.drop()
        raise NotApplicable("no resume_ok came: see L36")
    return attachment


async def _send_result(guest: TesterGuest, attachment: TesterAttachment, request: Frame) -> None:
    """Send the result of a request. Raises RuleBroken if the listener gives the request again."""
    link = attachment.link
    name = request["request_id"]
    await link.send(guest.result_frame(request), guest.signal_frame("completed", request_id=name))
    await guest.run_request(link)
    if any(is_request(frame, name) for frame in link.frames):
        raise RuleBroken("it was given again")


def _verdict(attachment: TesterAttachment, request: Frame) -> str | None:
    verdicts: Frame = (attachment.resume_ok or {}).get("verdicts") or {}
    return verdicts.get(request["request_id"])


async def _expect_ack(guest: TesterGuest, link: PeerConnection, request: Frame) -> None:
    name = request["request_id"]
    await link.expect(
        f"an ack of {name}",
        lambda frame: is_ctl(frame, "ack") and frame.get("request_id") == name,
        guest.options.timeout,
    )
