"""Agents that break one rule on purpose, each as small a change of the sound one as does it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from agent_common.net import open_endpoint, parse_endpoint
from agent_common.protocol.work import (
    FrameFault,
    FrameTooLarge,
    Lines,
    UnknownControl,
    Welcome,
    WorkRequest,
    payload_hash,
)
from agent_common.protocol.work import read_frame as read_strictly
from agent_testing import StubAgent
from agent_testing.channel import Frame, StubEntry, is_ack, is_ctl, is_request, is_result, is_signal, signal_frame

Change = Callable[[Frame], Frame | list[Frame] | None]
"""What becomes of a frame: another one, several, or none."""


def changed(frame: Frame, change: Change) -> list[Frame]:
    found = change(frame)
    return found if isinstance(found, list) else [] if found is None else [found]


def drop(test: Callable[[Frame], bool]) -> Change:
    return lambda frame: None if test(frame) else frame


def edit(test: Callable[[Frame], bool], **more: Any) -> Change:
    return lambda frame: {**frame, **more} if test(frame) else frame


def verified(frame: Frame) -> Frame:
    return {**frame, "principal": {**frame["principal"], "verified": True}} if is_request(frame) else frame


def without_bound(name: str) -> Change:
    def change(frame: Frame) -> Frame:
        if not isinstance(frame.get("bounds"), dict):
            return frame
        return {**frame, "bounds": {key: one for key, one in frame["bounds"].items() if key != name}}

    return change


def only_known_fields(*more: str) -> Change:
    names = {*WorkRequest.model_fields, *more}
    return lambda frame: {key: frame[key] for key in frame if key in names} if is_request(frame) else frame


def verdicts(**other: str) -> Change:
    """The host's verdicts, some of them taken for others."""

    def change(frame: Frame) -> Frame:
        if not is_ctl(frame, "resume_ok"):
            return frame
        return {**frame, "verdicts": {name: other.get(one, one) for name, one in frame["verdicts"].items()}}

    return change


def first_of_its_id(name: str) -> Callable[[], Change]:
    """The request with that field as it was when its id came first."""

    def make() -> Change:
        seen: dict[str, Frame] = {}

        def change(frame: Frame) -> Frame:
            if not is_request(frame):
                return frame
            first = seen.setdefault(frame["request_id"], frame)
            return {**frame, name: first[name]}

        return change

    return make


def hold_until(held: Callable[[Frame], bool], sent: Callable[[Frame], bool]) -> Callable[[], Change]:
    """One kind of frame goes after another kind."""

    def make() -> Change:
        kept: list[Frame] = []

        def change(frame: Frame) -> Frame | list[Frame] | None:
            if held(frame):
                kept.append(frame)
                return None
            late = kept[:] if sent(frame) else []
            del kept[: len(late)]
            return [frame, *late]

        return change

    return make


def real_hash() -> Change:
    """Constraints with the hash that their payload has."""
    pushed: list[Frame] = []

    def change(frame: Frame) -> Frame:
        if is_ctl(frame, "constraints_payload"):
            pushed.append(frame)
        if "payload_ref" not in frame:
            return frame
        return {**frame, "hash": payload_hash(base64.b64decode(pushed[-1]["b64"]))}

    return change


SENT: dict[str, Change] = {
    "extra_field": edit(lambda frame: "signal" in frame, mood="good"),
    "bare_hash": lambda frame: {**frame, "hash": frame["hash"].removeprefix("sha256:")} if is_ack(frame) else frame,
    "no_accepting": drop(lambda frame: is_signal(frame, "accepting")),
    "no_audit_ref": edit(is_result, audit_ref="none"),
    "two_results": lambda frame: [frame] * (2 if is_result(frame) and frame.get("status") != "denied" else 1),
    "own_identity": edit(lambda frame: "signal" in frame, agent_id="stub"),
    "no_pong": drop(lambda frame: is_ctl(frame, "pong")),
    "no_attach": drop(lambda frame: is_ctl(frame, "attach")),
    "wrong_mac": edit(lambda frame: is_ctl(frame, "attach"), mac="0" * 64),
    "progress_stands": edit(lambda frame: is_ctl(frame, "progress"), seq=1),
    "rewrites_payload": edit(lambda frame: is_ack(frame) and frame["version"] > 1, hash=payload_hash(b"rewritten")),
    "no_word_of_breaks": drop(lambda frame: is_signal(frame, "mediation_broken")),
    "accepts_then_denies": lambda frame: (
        [about(frame, "accepting"), frame, about(frame, "completed")] if frame.get("status") == "denied" else frame
    ),
    "strict_signals": lambda frame: (
        signal_frame("strict", "stub", frame["signal"], **frame) if "signal" in frame else frame
    ),
    "strict_results": lambda frame: {**frame, "status": "completed"} if is_result(frame) else frame,
}
"""Fault -> what becomes of a frame that the agent sends."""
READ: dict[str, Change] = {
    "trusts_anyone": verified,
    "takes_any_bound": without_bound("max_egress_bytes"),
    "no_deadline": without_bound("max_duration_seconds"),
    "no_budget": without_bound("max_tokens"),
    "no_tool_bound": without_bound("max_tool_calls"),
    "takes_extra_fields": only_known_fields("status"),
    "takes_two_shapes": lambda frame: {key: frame[key] for key in frame if key != "status" or not is_request(frame)},
    "ignores_acks": drop(lambda frame: is_ctl(frame, "ack")),
    "ignores_task_acks": drop(lambda frame: is_ctl(frame, "task_ack")),
    "no_cancel": drop(lambda frame: is_ctl(frame, "cancel")),
    "no_push": drop(lambda frame: "payload_ref" in frame),
    "no_resend": verdicts(resend="forget"),
    "ignores_forget": verdicts(forget="resend"),
    "ignores_cancel_verdict": verdicts(cancel="continue"),
}
"""Fault -> what becomes of a frame that the agent reads."""
SENT_WITH_STATE: dict[str, Callable[[], Change]] = {
    "late_attach": hold_until(lambda frame: is_ctl(frame, "attach"), lambda frame: is_ctl(frame, "resume")),
}
READ_WITH_STATE: dict[str, Callable[[], Change]] = {
    "no_conflict": first_of_its_id("content"),
    "keeps_outdated": first_of_its_id("constraints_version"),
    "believes_hashes": real_hash,
}


def about(frame: Frame, name: str) -> Frame:
    return signal_frame("strict", "stub", name, request_id=frame["request_id"])


# -------------------------------------------------------------------- faults that need more than a changed frame


class Silent(StubAgent):
    def hello(self) -> list[Frame]:
        return []


class AckAfterReady(StubAgent):
    def hello(self) -> list[Frame]:
        return sorted(super().hello(), key=is_ack)


class EarlyControl(StubAgent):
    def hello(self) -> list[Frame]:
        *before, ready = super().hello()
        return [*before, {"ctl": "ping", "n": 1}, ready]


class BlankLines(StubAgent):
    def hello(self) -> list[Frame]:
        if self.link is not None:
            self.link.post_bytes(b"\n")
        return super().hello()


class OneSid(StubAgent):
    def new_sid(self) -> str:
        return "always-the-same-one"


class NeedsWelcome(StubAgent):
    def on_frame(self, frame: Frame) -> None:
        if not is_request(frame) or self.welcome is not None:
            super().on_frame(frame)


class BelievesHosts(StubAgent):
    def is_proof(self, welcome: Welcome, key: bytes) -> bool:
        return True


class IgnoresVersion(StubAgent):
    def refusal(self, request: WorkRequest) -> str | None:
        return super().refusal(request.model_copy(update={"constraints_version": self.version}))


class StartsAgain(StubAgent):
    def start(self, request: WorkRequest) -> None:
        known = self.ledger.get(request.request_id)
        if known is not None and known.result is None:
            self.ledger["again"] = StubEntry(request)
            self.ledger["again"].task = asyncio.get_running_loop().create_task(self._work(self.ledger["again"]))
        super().start(request)


class RunsAgain(StubAgent):
    def start(self, request: WorkRequest) -> None:
        known = self.ledger.get(request.request_id)
        if known is not None and known.result is not None and known.request.content == request.content:
            del self.ledger[request.request_id]
            self.answer = "pong once more"
        super().start(request)


class WorksWhileDraining(StubAgent):
    def refusal(self, request: WorkRequest) -> str | None:
        error = super().refusal(request)
        return None if error and error.startswith("draining") else error


class DiesOfBadLines(StubAgent):
    codes = ("invalid_json", "not_an_object")

    def on_fault(self, fault: FrameFault) -> None:
        super().on_fault(fault)
        if fault.code in self.codes and self.link is not None:
            self.link.hang_up("a bad line came")


class DiesOfLongLines(DiesOfBadLines):
    codes = ("line_too_long",)


class DiesOfUnknownControl(StubAgent):
    def on_frame(self, frame: Frame) -> None:
        if "ctl" in frame and isinstance(read_strictly(frame), UnknownControl) and self.link is not None:
            self.link.hang_up("an unknown control frame came")
        super().on_frame(frame)


class EnduresFloods(StubAgent):
    def on_fault(self, fault: FrameFault) -> None:
        """Counts nothing."""


class TrustsSilence(StubAgent):
    def is_silent(self, seconds: float) -> bool:
        return False


class NoResume(StubAgent):
    def resume(self) -> None:
        self._apply_verdicts({})


class LetsResultsGo(StubAgent):
    def deliver(self, entry: StubEntry) -> None:
        super().deliver(entry)
        entry.acked = entry.acked or entry.sent


class ExitsOnEof(StubAgent):
    async def run(self) -> None:
        await self.connect_once()


class LosesWork(StubAgent):
    async def connect_once(self) -> None:
        await super().connect_once()
        for entry in self.ledger.values():
            if entry.result is None and entry.task is not None:
                entry.acked = True
                entry.task.cancel()

    def deliver(self, entry: StubEntry) -> None:
        if entry.sent or not entry.acked:
            super().deliver(entry)


class DialsTwice(StubAgent):
    async def connect_once(self) -> None:
        await super().connect_once()
        with contextlib.suppress(OSError):
            _, writer = await self._second
            writer.close()

    def hello(self) -> list[Frame]:
        self._second = asyncio.get_running_loop().create_task(open_endpoint(parse_endpoint(self.url)))
        return super().hello()


class ReportsUnasked(StubAgent):
    def report(self, task_id: str) -> None:
        if self.resumed and self.welcome is not None:
            self.send(self.reports[task_id])


class LetsReportsGo(StubAgent):
    def report(self, task_id: str) -> None:
        super().report(task_id)
        if self.resumed and self.welcome is not None and self.welcome.task_results:
            del self.reports[task_id]


class StaysAfterDrain(StubAgent):
    def _end_drain(self) -> None:
        """Stays."""


# -------------------------------------------------------------------- careless readers of the stream


class Patient(Lines):
    """Never gives up."""

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        try:
            yield from super().feed(data)
        except FrameTooLarge:
            self._length = self.soft + 1


class NoBlanks(Lines):
    _before = b"\n"

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        seen, self._before = (self._before + data).replace(b"\r", b""), data[-1:]
        if b"\n\n" in seen:
            raise FrameTooLarge("a blank line came")
        yield from super().feed(data)


class DropsCrumbs(Lines):
    """Drops small pieces, but for those of the first line."""

    _begun = False

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        if len(data) >= 8 or not self._begun:
            for line in super().feed(data):
                self._begun = True
                yield line


class Hasty(Lines):
    """Does not wait for LF."""

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        yield from super().feed(data)
        if data[-1:] == b"}" and (kept := bytes(self._kept)):
            with contextlib.suppress(ValueError):
                json.loads(kept)
                yield from super().feed(b"\n")


class LastKeyWins(Lines):
    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        for line in super().feed(data):
            try:
                yield line if isinstance(line, FrameFault) else json.dumps(json.loads(line)).encode()
            except ValueError:
                yield line


LINES: dict[str, type[Lines]] = {
    "endures_endless_lines": Patient,
    "dies_of_blanks": NoBlanks,
    "drops_crumbs": DropsCrumbs,
    "reads_cut_lines": Hasty,
    "takes_double_keys": LastKeyWins,
}
"""Fault -> how the agent cuts the stream into lines."""
OVERRIDDEN: dict[str, type[StubAgent]] = {
    "silent": Silent,
    "ack_after_ready": AckAfterReady,
    "early_control": EarlyControl,
    "blank_lines": BlankLines,
    "one_sid": OneSid,
    "needs_welcome": NeedsWelcome,
    "believes_hosts": BelievesHosts,
    "ignores_version": IgnoresVersion,
    "starts_again": StartsAgain,
    "runs_again": RunsAgain,
    "works_while_draining": WorksWhileDraining,
    "dies_of_bad_lines": DiesOfBadLines,
    "dies_of_long_lines": DiesOfLongLines,
    "dies_of_unknown_control": DiesOfUnknownControl,
    "endures_floods": EnduresFloods,
    "trusts_silence": TrustsSilence,
    "no_resume": NoResume,
    "lets_results_go": LetsResultsGo,
    "exits_on_eof": ExitsOnEof,
    "loses_work": LosesWork,
    "dials_twice": DialsTwice,
    "reports_unasked": ReportsUnasked,
    "lets_reports_go": LetsReportsGo,
    "stays_after_drain": StaysAfterDrain,
}
"""Fault -> an agent that has it."""
SETTINGS: dict[str, dict[str, Any]] = {"bad_offer": {"window": 0}, "dials_hotly": {"backoff": (0.001, 0.001)}}
AGENT_FAULTS = {*SENT, *SENT_WITH_STATE, *READ, *READ_WITH_STATE, *LINES, *OVERRIDDEN, *SETTINGS}


def make_agent(url: str, fault: str, **settings: Any) -> StubAgent:
    """An agent with this fault; a sound one when there is no such fault."""
    sound = drop(lambda _: False)
    sent = SENT_WITH_STATE[fault]() if fault in SENT_WITH_STATE else SENT.get(fault, sound)
    read = READ_WITH_STATE[fault]() if fault in READ_WITH_STATE else READ.get(fault, sound)

    class Agent(OVERRIDDEN.get(fault, StubAgent)):
        def new_lines(self) -> Lines:
            return LINES.get(fault, Lines)(self.max_line)

        def send(self, frame: Frame) -> None:
            for one in changed(frame, sent):
                super().send(one)

        def on_frame(self, frame: Frame) -> None:
            for one in changed(frame, read):
                super().on_frame(one)

    return Agent(url, **{**settings, **SETTINGS.get(fault, {})})
