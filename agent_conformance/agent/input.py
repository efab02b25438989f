"""Rules for agents: what a reader must withstand."""

from __future__ import annotations

from collections.abc import Callable

from agent_common.protocol.work import HARD_FACTOR, MOST_BAD_LINES, SOFT_LINE, encode

from ..host import TesterHost, TesterSession
from ..link import Frame, brief, is_ctl, is_result, is_signal
from ..rules import ConformanceRules, NotApplicable, RuleBroken

Line = Callable[[Frame], bytes]
INPUT: ConformanceRules[TesterHost] = ConformanceRules()
_LARGEST = 16 << 20


@INPUT.rule("A30", "2.2", "Lines that are no frames are passed over; the connection and the next request live on.")
async def bad_lines(host: TesterHost) -> str:
    lines = (b"this is no JSON", b"[1, 2]", b'{"hello": "world"}', b'{"\xff": 1}')
    link = (await host.session(bad=len(lines))).link
    await link.bad(*lines)
    await host.done(link, host.request())
    return f"{len(lines)} bad lines, then a result"


@INPUT.rule("A31", "2.2", "Blank lines and CR before LF are ignored.")
async def blank_lines(host: TesterHost) -> str:
    link, request = (await host.session()).link, host.request()
    mark = link.mark()
    await link.send_bytes(b"\n\r\n\n" + encode(request)[:-1] + b"\r\n")
    await host.result(link, request, mark, host.options.timeout * 3)
    return "a result"


@INPUT.rule("A32", "2.2", "A line over the limit is skipped; the next one is read.")
async def long_line(host: TesterHost) -> str:
    session = await host.session(bad=1)
    size = _limit(session) + 10
    await session.link.bad(b'{"x":"' + b"x" * size + b'"}')
    await host.done(session.link, host.request())
    return f"{size} bytes, then a result"


@INPUT.rule("A33", "2.2", "A frame may come in any pieces.", loose=True)
async def dribble(host: TesterHost) -> str:
    link, request = (await host.session()).link, host.request("gr\u00fc\u00df dich \U0001f600")
    mark = link.mark()
    await link.dribble(encode(request))
    await host.result(link, request, mark, host.options.timeout * 3)
    await link.find(lambda frame: is_signal(frame, "completed", request["request_id"]), host.options.quiet, mark)
    return "byte by byte"


@INPUT.rule("A34", "2.1", "A request with a field that nobody knows is not begun.")
async def extra_field(host: TesterHost) -> str:
    return await _not_begun(host, lambda request: encode({**request, "colour": "blue"}))


@INPUT.rule("A39", "2.2", "A request in which a key stands twice is not begun.")
async def double_key(host: TesterHost) -> str:
    return await _not_begun(host, lambda request: b'{"content":"another",' + encode(request)[1:])


@INPUT.rule("A29", "2.1", "An object that two shapes fit is not begun.")
async def two_shapes(host: TesterHost) -> str:
    return await _not_begun(host, lambda request: encode({**request, "status": "completed"}))


@INPUT.rule("A36", "2.2", f"More than {MOST_BAD_LINES} bad lines in a minute end the connection.")
async def flood(host: TesterHost) -> str:
    session = await host.fresh()
    for _ in range(MOST_BAD_LINES + 4):
        await session.link.bad(b"bad")
    if await session.link.ended(host.options.timeout) is None:
        raise RuleBroken(f"open after {MOST_BAD_LINES + 4} bad lines")
    return f"closed ({session.link.left})"


@INPUT.rule("A37", "2.2", f"A line of more than {HARD_FACTOR} times the limit ends the connection.")
async def endless_line(host: TesterHost) -> str:
    session = await host.session()
    size = _limit(session) * HARD_FACTOR + 1024
    session.link.bad_sent += MOST_BAD_LINES
    await session.link.send_bytes(b"x" * size)
    if await session.link.ended(host.options.timeout) is None:
        raise RuleBroken(f"open after a line of {size} bytes")
    return f"closed ({session.link.left})"


@INPUT.rule("A38", "2.2", "A request without LF when the connection ends is not run, though it is whole.")
async def cut_off(host: TesterHost) -> str:
    link, request = (await host.session()).link, host.request()
    await link.send_bytes(encode(request)[:-1])
    session = await host.fresh()
    known: Frame = session.resume or {}
    if request["request_id"] in (*known.get("running", ()), *known.get("unacked", ())):
        raise RuleBroken("the agent knows the request")
    mark = session.link.mark()
    await session.link.send({**request, "content": f"{host.options.work} again"})
    result = await host.result(session.link, request, mark, host.options.timeout * 3)
    if str(result.get("error")).startswith("request_id_conflict"):
        raise RuleBroken("it ran: other work under its id is a conflict")
    return "its id was free"


async def _not_begun(host: TesterHost, line: Line) -> str:
    session = await host.session(bad=1)
    link, request = session.link, host.request()
    mark, name = link.mark(), request["request_id"]
    await link.bad(line(request)[:-1])

    def begun(frame: Frame) -> bool:
        return is_signal(frame, "accepting", name) or (
            is_result(frame, name) and frame.get("status") not in ("denied", "failed")
        )

    if found := await link.find(begun, host.options.quiet, mark):
        raise RuleBroken(f"came: {brief(found)}")
    told = [frame for frame in link.frames[mark:] if is_ctl(frame, "nack") or is_result(frame, name)]
    return ", ".join(map(brief, told)) or "silence"


def _limit(session: TesterSession) -> int:
    limit = session.offer.max_line if session.offer else SOFT_LINE
    if limit > _LARGEST:
        raise NotApplicable(f"the agent takes lines of {limit} bytes")
    return limit
