"""Listeners that break one rule on purpose, each as small a change of the sound one as does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from agent_common.protocol.work import (
    Attach,
    FrameFault,
    FrameTooLarge,
    LifecycleSignal,
    Lines,
    UnknownControl,
    Verdict,
    WorkResult,
    read_frame,
)
from agent_testing import StubListener, StubSession
from agent_testing.channel import Frame, is_ctl, is_request, request_frame

from .agent_mutants import Change, DropsCrumbs, Hasty, Patient, changed, drop, edit

_CHOKED = 1000
SENT: dict[str, Change] = {
    "extra_field": edit(is_request, colour="blue"),
    "bad_welcome": lambda frame: (
        {key: frame[key] for key in frame if key != "workspace"} if is_ctl(frame, "welcome") else frame
    ),
    "no_proof": edit(lambda frame: is_ctl(frame, "welcome"), mac="0" * 64),
    "no_ack": drop(lambda frame: is_ctl(frame, "ack")),
    "no_task_ack": drop(lambda frame: is_ctl(frame, "task_ack")),
    "takes_any_result": edit(lambda frame: is_ctl(frame, "welcome"), task_results=True),
    "no_pong": drop(lambda frame: is_ctl(frame, "pong")),
    "no_resume_ok": drop(lambda frame: is_ctl(frame, "resume_ok")),
    "strict_requests": lambda frame: (
        request_frame("strict", frame["content"], frame["request_id"]) if is_request(frame) else frame
    ),
}
"""Fault -> what becomes of a frame that the listener sends."""


class SpeaksFirst(StubSession):
    async def run(self) -> None:
        self.send({"ctl": "welcome", "v": 1, "workspace": "stub", "agent_id": "stub", "epoch": 1})
        await super().run()


class ChokesOnProbes(StubSession):
    """Hangs up, once, on the first agent after fifty probes."""

    most = 50
    probes: ClassVar[list[str]]

    def counts(self, ended: str) -> bool:
        return True

    async def run(self) -> None:
        await super().run()
        if not self.link.frames and self.counts(ended := await self.link.ended()):
            self.probes.append(ended)

    def on_frame(self, frame: Frame) -> None:
        if self.most <= len(self.probes) < _CHOKED:
            self.probes.extend(["choked"] * _CHOKED)
            self.link.hang_up("probes were too much")
        else:
            super().on_frame(frame)


class ChokesOnResets(ChokesOnProbes):
    most = 1

    def counts(self, ended: str) -> bool:
        return ended == "reset"


class ProbesDisplace(StubSession):
    async def run(self) -> None:
        if self.listener.current is not None:
            self.listener.current.end()
        await super().run()


class HastySession(StubSession):
    def first_line_seconds(self) -> float:
        return 0.5


class AlwaysWelcomes(StubSession):
    def on_ready(self) -> None:
        self.send_welcome()
        if self.listener.dialect == "loose":
            self.start_work()


class FewConnections(StubSession):
    async def run(self) -> None:
        if len(self.listener.sessions) > 20:
            self.link.hang_up()
        await super().run()


class Eager(StubSession):
    def on_signal(self, signal: LifecycleSignal) -> None:
        if signal.signal != "ready":
            self.start_work()
        super().on_signal(signal)


class BlankLines(StubSession):
    def on_ready(self) -> None:
        self.link.post_bytes(b"\n")
        super().on_ready()


class OneEpoch(StubSession):
    def next_epoch(self) -> int:
        return 1


class Floods(StubSession):
    def is_free(self) -> bool:
        return self.ready


class LastWins(StubSession):
    def on_result(self, result: WorkResult) -> None:
        super().on_result(result)
        if result.request_id in self.assigned:
            self.assigned[result.request_id].result = result


class LosesUnaccepted(StubSession):
    lost = "dispatched"

    def requeue(self) -> None:
        self.assigned = {name: work for name, work in self.assigned.items() if work.state != self.lost}
        super().requeue()


class LosesAccepted(LosesUnaccepted):
    lost = "accepted"


class RetriesDenied(StubSession):
    def on_result(self, result: WorkResult) -> None:
        work = self.assigned.get(result.request_id)
        super().on_result(result)
        if work is not None and result.status == "denied":
            work.state, work.result = "queued", None
            self.dispatch()


class DiesOfBadLines(StubSession):
    def is_deadly(self, fault: FrameFault) -> bool:
        return fault.code != "line_too_long"

    def on_fault(self, fault: FrameFault) -> None:
        super().on_fault(fault)
        if self.is_deadly(fault):
            self.link.hang_up("a bad line came")


class DiesOfLongLines(DiesOfBadLines):
    def is_deadly(self, fault: FrameFault) -> bool:
        return fault.code == "line_too_long"


class DiesOfForeignResults(StubSession):
    def on_result(self, result: WorkResult) -> None:
        super().on_result(result)
        if result.request_id not in self.listener.ledger:
            self.link.hang_up("a result came for a request that was never given")


class HeedsQuarantine(StubSession):
    def on_signal(self, signal: LifecycleSignal) -> None:
        super().on_signal(signal)
        if signal.signal == "quarantined":
            self.ready = False


class EnduresFloods(StubSession):
    def on_fault(self, fault: FrameFault) -> None:
        """Counts nothing."""


class DiesOfUnknownControl(StubSession):
    def on_frame(self, frame: Frame) -> None:
        if "ctl" in frame and isinstance(read_frame(frame), UnknownControl):
            self.link.hang_up("an unknown control frame came")
        super().on_frame(frame)


class DoesNotWantResults(StubSession):
    def verdict(self, name: str, *, done: bool) -> Verdict:
        return "forget" if done else super().verdict(name, done=done)


class WantsAllResults(StubSession):
    def verdict(self, name: str, *, done: bool) -> Verdict:
        return "resend" if done else super().verdict(name, done=done)


class CancelsAfterBreaks(StubSession):
    def verdict(self, name: str, *, done: bool) -> Verdict:
        return super().verdict(name, done=done) if done else "cancel"


class TrustsSilence(StubSession):
    def is_silent(self, seconds: float) -> bool:
        return False


class TwoSessions(StubSession):
    def displace(self, older: StubSession) -> None:
        older.requeue()


class TakesAnyMac(StubSession):
    def is_proof(self, attach: Attach, sid: str, challenge: str) -> bool:
        return True


class TakesOldMacs(StubSession):
    macs: ClassVar[set[str]]

    def is_proof(self, attach: Attach, sid: str, challenge: str) -> bool:
        good = super().is_proof(attach, sid, challenge) or attach.mac in self.macs
        self.macs.add(attach.mac)
        return good


class AsksInVain(StubSession):
    def on_ready(self) -> None:
        super().on_ready()
        self.ready = True
        self.dispatch()


class NewcomersDisplace(StubSession):
    def on_ready(self) -> None:
        if self.listener.current is not None and self.listener.current is not self:
            self.listener.current.end()
        super().on_ready()


class HalfCloses(StubSession):
    def on_fault(self, fault: FrameFault) -> None:
        super().on_fault(fault)
        if fault.code == "endless":
            self.link.half_close()


class _ToldOfEndlessLines(Lines):
    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        try:
            yield from super().feed(data)
        except FrameTooLarge:
            self._length = self.soft + 1
            yield FrameFault("endless", "a line has no end")


LINES: dict[str, type[Lines]] = {
    "drops_crumbs": DropsCrumbs,
    "reads_cut_lines": Hasty,
    "endures_endless_lines": Patient,
    "half_closes": _ToldOfEndlessLines,
}
"""Fault -> how the listener cuts the stream into lines."""
OVERRIDDEN: dict[str, type[StubSession]] = {
    "speaks_first": SpeaksFirst,
    "chokes_on_probes": ChokesOnProbes,
    "chokes_on_resets": ChokesOnResets,
    "probes_displace": ProbesDisplace,
    "hasty": HastySession,
    "always_welcomes": AlwaysWelcomes,
    "few_connections": FewConnections,
    "eager": Eager,
    "blank_lines": BlankLines,
    "one_epoch": OneEpoch,
    "floods": Floods,
    "last_wins": LastWins,
    "loses_unaccepted": LosesUnaccepted,
    "loses_accepted": LosesAccepted,
    "retries_denied": RetriesDenied,
    "dies_of_bad_lines": DiesOfBadLines,
    "dies_of_long_lines": DiesOfLongLines,
    "dies_of_foreign_results": DiesOfForeignResults,
    "heeds_quarantine": HeedsQuarantine,
    "endures_floods": EnduresFloods,
    "dies_of_unknown_control": DiesOfUnknownControl,
    "does_not_want_results": DoesNotWantResults,
    "wants_all_results": WantsAllResults,
    "cancels_after_breaks": CancelsAfterBreaks,
    "trusts_silence": TrustsSilence,
    "two_sessions": TwoSessions,
    "takes_any_mac": TakesAnyMac,
    "takes_old_macs": TakesOldMacs,
    "asks_in_vain": AsksInVain,
    "newcomers_displace": NewcomersDisplace,
    "half_closes": HalfCloses,
}
"""Fault -> a session that has it."""
LISTENER_FAULTS = {*SENT, *LINES, *OVERRIDDEN}


def make_listener(url: str, fault: str, **settings: Any) -> StubListener:
    """A listener with this fault; a sound one when there is no such fault."""
    sent = SENT.get(fault, drop(lambda _: False))

    class Session(OVERRIDDEN.get(fault, StubSession)):
        probes: ClassVar[list[str]] = []
        macs: ClassVar[set[str]] = set()

        def send(self, frame: Frame) -> None:
            for one in changed(frame, sent):
                super().send(one)

    class Listener(StubListener):
        def new_lines(self) -> Lines:
            return LINES.get(fault, Lines)(self.max_line)

    return Listener(url, session_type=Session, **settings)
