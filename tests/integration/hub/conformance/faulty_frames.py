"""Faults of a hub that change single frames: those that it sends, and those that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_common.protocol.hub import (
    EV_HANDOFF,
    EV_SESSION_CLOSED,
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    EV_SESSION_INVITE_REJECT,
    EV_TEXT,
    AcceptFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    NotifyFrame,
    PongFrame,
    ReceiptFrame,
    RequestFrame,
    ResponseFrame,
    SendFrame,
    UnsubscribeFrame,
    WelcomeFrame,
)

Change = Callable[[Frame], Frame | None]
"""What becomes of a frame; None: nothing."""


def drop(kind: type[Frame], is_meant: Callable[[Any], bool] = lambda _: True) -> Change:
    return lambda frame: None if isinstance(frame, kind) and is_meant(frame) else frame


def edit(kind: type[Frame], **fields: Any) -> Change:
    return lambda frame: frame.model_copy(update=fields) if isinstance(frame, kind) else frame


def edit_sent(is_meant: Callable[[Any], bool] = lambda _: True, **fields: Any) -> Change:
    """The envelopes of clients have other fields."""

    def change(frame: Frame) -> Frame:
        if not isinstance(frame, SendFrame) or not is_meant(frame.envelope):
            return frame
        return frame.model_copy(update={"envelope": frame.envelope.model_copy(update=fields)})

    return change


def edit_params(op: str, **fields: Any) -> Change:
    """A request has other parameters."""

    def change(frame: Frame) -> Frame:
        if not isinstance(frame, RequestFrame) or frame.op != op:
            return frame
        return frame.model_copy(update={"params": {**frame.params, **fields}})

    return change


def without_rule(*names: str) -> Change:
    """Parts of the rule that an agent registers with do not hold."""

    def change(frame: Frame) -> Frame:
        if not isinstance(frame, RequestFrame) or frame.op != "register":
            return frame
        rule = {key: value for key, value in frame.params.get("rule", {}).items() if key not in names}
        return frame.model_copy(update={"params": {**frame.params, "rule": rule}})

    return change


def goes_back(frame: Frame) -> Frame:
    """The participants are the other way round."""
    if not isinstance(frame, RequestFrame) or frame.op != "open":
        return frame
    return frame.model_copy(update={"params": {**frame.params, "targets": frame.params["targets"][::-1]}})


def drops_newest(frame: Frame) -> Frame:
    if not isinstance(frame, RequestFrame) or "inbox" not in (rule := frame.params.get("rule", {})):
        return frame
    rule = {**rule, "inbox": {**rule["inbox"], "overflow": "drop_newest"}}
    return frame.model_copy(update={"params": {**frame.params, "rule": rule}})


def accept(part: str) -> Change:
    """A refusal whose message has this is an accept."""

    def change(frame: Frame) -> Frame:
        if not isinstance(frame, ErrorFrame) or part not in frame.message:
            return frame
        return AcceptFrame(request_id=frame.request_id, envelope_id="env_0000000000000000")

    return change


def edit_envelopes(change: Callable[[dict[str, Any]], dict[str, Any]], *, delivered: bool = True) -> Change:
    """The envelopes of pages, and of deliveries, are shown otherwise."""

    def changed(frame: Frame) -> Frame:
        match frame:
            case ResponseFrame(result={"envelopes": list(shown), "next": after}):
                page = [change(dict(one)) for one in shown]
                return frame.model_copy(update={"result": {"envelopes": page, "next": after}})
            case NotifyFrame() if delivered:
                shown = frame.envelope.model_copy(update=change(frame.envelope.model_dump()))
                return frame.model_copy(update={"envelope": shown})
            case _:
                return frame

    return changed


def skip_one(frame: Frame) -> Frame:
    """A page begins one too late."""
    match frame:
        case ResponseFrame(result={"envelopes": list(page), "next": int(after)}) if len(page) < 10:  # pyright: ignore[reportUnknownVariableType]
            return frame.model_copy(update={"result": {"envelopes": page, "next": after + 1}})
        case _:
            return frame


def hide_type(frame: Frame) -> Frame:
    if not isinstance(frame, NotifyFrame) or frame.envelope.event_type != EV_SESSION_INVITE:
        return frame
    data = {key: value for key, value in frame.envelope.event_data.items() if key != "type"}
    return frame.model_copy(update={"envelope": frame.envelope.model_copy(update={"event_data": data})})


def untyped(frame: Frame) -> Frame:
    if not isinstance(frame, ErrorFrame) or frame.code != "inbox_full":
        return frame
    return frame.model_copy(update={"code": "error", "retry_after": None})


def nameless(frame: Frame) -> Frame:
    if not isinstance(frame, ErrorFrame) or frame.code != "protocol_error":
        return frame
    return frame.model_copy(update={"request_id": ""})


def later_number(envelope: dict[str, Any]) -> dict[str, Any]:
    return {**envelope, "sequence": envelope["sequence"] + (envelope["sequence"] > 4)}


def falling_id(envelope: dict[str, Any]) -> dict[str, Any]:
    number = int(envelope["envelope_id"].removeprefix("env_"), 16)
    return {**envelope, "envelope_id": f"env_{(1 << 64) - 1 - number:016x}"}


SENT: dict[str, Change] = {
    "no_welcome": drop(WelcomeFrame),
    "no_pong": drop(PongFrame),
    "no_request_id": nameless,
    "invites_to_anything": hide_type,
    "speaks_while_pending": accept("is not open yet"),
    "speaks_when_over": accept(" is closed"),
    "skips_a_number": edit_envelopes(later_number),
    "ids_fall": edit_envelopes(falling_id, delivered=False),
    "speaks_out_of_turn": accept("it is not the turn of"),
    "first_id_for_all": accept("another envelope of yours"),
    "pages_have_holes": skip_one,
    "deliveries_differ": edit_envelopes(lambda one: {**one, "task_id": None}, delivered=False),
    "any_audience": accept("audience:"),
    "untyped_inbox_full": untyped,
    "no_attempt": edit(NotifyFrame, attempt=1),
    "tasks_go_on": accept("and stays so"),
}
"""Fault -> what becomes of a frame that the hub sends."""
TAKEN: dict[str, Change] = {
    "any_version": edit(HelloFrame, version=1),
    "forgets_resumes": edit_params("set_resume", resume={}),
    "ignores_rejections": edit_sent(
        lambda one: one.event_type == EV_SESSION_INVITE_REJECT, event_type=EV_SESSION_INVITE_ACK
    ),
    "opens_twice": edit_params("open", key=None),
    "no_turns": edit_params("open", type="conversation"),
    "goes_back": goes_back,
    "ignores_handoffs": edit_sent(lambda one: one.event_type == EV_HANDOFF, event_type=EV_TEXT),
    "circles": edit_params("open", parent=None),
    "never_expires": edit_params("open", ttl=None),
    "expects_nothing": edit_params("open", knobs={"expectations": []}),
    "agents_end_sessions": edit_sent(lambda one: one.event_type == EV_SESSION_CLOSED, event_type="closed.by.agent"),
    "no_causation": edit_sent(causation_id=None),
    "ignores_keys": edit_sent(idempotency_key=None),
    "never_unsubscribes": drop(UnsubscribeFrame),
    "delivers_to_all": edit_sent(audience=None),
    "ignores_nacks": drop(ReceiptFrame, lambda one: one.status == "nack"),
    "loses_acks": drop(ReceiptFrame, lambda one: one.status == "ack"),
    "ignores_ttl": edit_sent(ttl_seconds=None),
    "forgets_outcomes": edit(ReceiptFrame, outcome=None),
    "ignores_inboxes": without_rule("inbox"),
    "drops_newest": drops_newest,
    "sends_at_once": without_rule("inbox"),
    "ignores_priority": edit_sent(priority="normal"),
    "ignores_rates": without_rule("rate"),
    "ignores_access": without_rule("access", "session_types"),
    "ignores_most_sessions": without_rule("max_concurrent_sessions"),
    "tasks_are_private": edit_params("observe_task", session_id=None),
    "tasks_never_expire": edit_params("observe_task", ttl=None),
    "stays_registered": lambda frame: (
        frame.model_copy(update={"op": "list_agents", "params": {}})
        if isinstance(frame, RequestFrame) and frame.op == "unregister"
        else frame
    ),
}
"""Fault -> what becomes of a frame that the hub takes."""
