"""Rules for agents: input that a reader must survive."""

from __future__ import annotations

from collections.abc import Callable

from agent_common.protocol.work import HARD_FACTOR, MAX_BAD_LINES, SOFT_LINE, encode
from agent_testing.channel import Frame, brief, is_ctl, is_result, is_signal

from ..host import TesterHost, TesterSession
from ..rules import ConformanceRules, NotApplicable, RuleBroken

MakeLine = Callable[[Frame], bytes]
INPUT: ConformanceRules[TesterHost] = ConformanceRules()
_MAX_TESTED_LINE = 16 << 20


@INPUT.rule("A30", "2.2", "Lines that are no frames are passed over; the connection and the next request live on.")
async def bad_lines(host: TesterHost) -> str:
    lines = (b"this is no JSON", b"[1, 2]", b'{"hello": "world"}', b'{"\xff": 1}')
    link = (await host.ensure_session(bad_lines=len(lines))).link
    await link.send_bad_lines(*lines)
    await host.run_request(link, host.new_request())
    return f"{len(lines)} bad lines, then a result"


@INPUT.rule("A31", "2.2", "Blank lines and CR before LF are ignored.")
async def blank_lines(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    mark = link.mark()
    await link.send_bytes(b"\n\r\n\n" + encode(request)[:-1] + b"\r\n")
    await host.expect_result(link, request, mark, host.options.timeout * 3)
    return "a result"


@INPUT.rule("A32", "2.2", "A line over the limit is skipped; the next one is read.")
async def long_line(host: TesterHost) -> str:
    session = await host.ensure_session(bad_lines=1)
    size = _max_line(session) + 10
    await session.link.send_bad_lines(b'{"x":"' + b"x" * size + b'"}')
    await host.run_request(session.link, host.new_request())
    return f"{size} bytes, then a result"


@INPUT.rule("A33", "2.2", "A frame may come in any pieces.", loose=True)
async def accepts_any_pieces(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request("gr\u00fc\u00df dich \U0001f600")
    mark = link.mark()
    await link.send_byte_by_byte(encode(request))
    await host.expect_result(link, request, mark, host.options.timeout * 3)
    await link.wait_for(
        lambda frame: is_signal(frame, "completed", request["request_id"]), host.options.quiet_seconds, mark
    )
    return "byte by byte"


@INPUT.rule("A34", "2.1", "A request with a field that nobody knows is not begun.")
async def extra_field(host: TesterHost) -> str:
    return await _check_not_started(host, lambda request: encode({**request, "colour": "blue"}))


@INPUT.rule("A39", "2.2", "A request in which a key stands twice is not begun.")
async def double_key(host: TesterHost) -> str:
    return await _check_not_started(host, lambda request: b'{"content":"another",' + encode(request)[1:])


@INPUT.rule("A29", "2.1", "An object that two shapes fit is not begun.")
async def two_shapes(host: TesterHost) -> str:
    return await _check_not_started(host, lambda request: encode({**request, "status": "completed"}))


@INPUT.rule("A36", "2.2", f"More than {MAX_BAD_LINES} bad lines in a minute end the connection.")
async def too_many_bad_lines(host: TesterHost) -> str:
    session = await host.new_session()
    for _ in range(MAX_BAD_LINES + 4):
        await session.link.send_bad_lines(b"bad")
    if await session.link.wait_for_end(host.options.timeout) is None:
        raise RuleBroken(f"open after {MAX_BAD_LINES + 4} bad lines")
    return f"closed ({session.link.peer_ended})"


@INPUT.rule("A37", "2.2", f"A line of more than {HARD_FACTOR} times the limit ends the connection.")
async def endless_line(host: TesterHost) -> str:
    session = await host.ensure_session()
    size = _max_line(session) * HARD_FACTOR + 1024
    session.link.bad_lines_sent += MAX_BAD_LINES
    await session.link.send_bytes(b"x" * size)
    if await session.link.wait_for_end(host.options.timeout) is None:
        raise RuleBroken(f"open after a line of {size} bytes")
    return f"closed ({session.link.peer_ended})"


@INPUT.rule("A38", "2.2", "A request without LF when the connection ends is not run, though it is whole.")
async def ignores_unfinished_line(host: TesterHost) -> str:
    link = (await host.ensure_session()).link
    request = host.new_request()
    await link.send_bytes(encode(request)[:-1])
    session = await host.new_session()
    known: Frame = session.resume or {}
    if request["request_id"] in (*known.get("running", ()), *known.get("unacked", ())):
        raise RuleBroken("the agent knows the request")
    mark = session.link.mark()
    await session.link.send({**request, "content": f"{host.options.work} again"})
    result = await host.expect_result(session.link, request, mark, host.options.timeout * 3)
    if str(result.get("error")).startswith("request_id_conflict"):
        raise RuleBroken("it ran: other work under its id is a conflict")
    return "its id was free"


async def _check_not_started(host: TesterHost, make_line: MakeLine) -> str:
    session = await host.ensure_session(bad_lines=1)
    link = session.link
    request = host.new_request()
    mark = link.mark()
    name = request["request_id"]
    await link.send_bad_lines(make_line(request)[:-1])

    def begun(frame: Frame) -> bool:
        return is_signal(frame, "accepting", name) or (
            is_result(frame, name) and frame.get("status") not in ("denied", "failed")
        )

    if found := await link.wait_for(begun, host.options.quiet_seconds, mark):
        raise RuleBroken(f"came: {brief(found)}")
    answers = [frame for frame in link.frames[mark:] if is_ctl(frame, "nack") or is_result(frame, name)]
    return ", ".join(map(brief, answers)) or "silence"


def _max_line(session: TesterSession) -> int:
    limit = session.offer.max_line if session.offer else SOFT_LINE
    if limit > _MAX_TESTED_LINE:
        raise NotApplicable(f"the agent takes lines of {limit} bytes")
    return limit
