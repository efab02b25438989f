"""Session types as folds: against a model, and against their own snapshots."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol.hub import (
    EV_CONTEXT_SET,
    EV_EXPECTATION_VIOLATED,
    EV_FINISH,
    EV_HANDOFF,
    EV_SESSION_CLOSED,
    EV_SESSION_INVITE_ACK,
    EV_TEXT,
    HUB_ID,
    SESSION_TYPES,
    AccessDeniedError,
    ContextEquals,
    FromSpeaker,
    ProtocolError,
    RoundRobin,
    Stay,
    ToAgent,
    ToolCalled,
    Transition,
    TransitionGraph,
    WorkflowGraphError,
    begin,
    dump_session,
    expectations_of,
    fold,
    load_session,
    overdue_times,
    validate,
)

from .hub_logs import Log, info

MEMBERS = 4
CUSTOM = "app.note"
senders = st.sampled_from("abcdz")
steps = st.lists(st.tuples(senders, st.sampled_from([EV_TEXT, EV_TEXT, EV_TEXT, CUSTOM])), max_size=25)
violations = st.tuples(st.just(HUB_ID), st.sampled_from(["hide", "remove", "warn"]), st.sampled_from("abcd"))


def accepted(log: Log, sender: str, event_type: str, **data: Any) -> bool:
    try:
        log.send(sender, event_type, **data)
    except (ProtocolError, AccessDeniedError):
        return False
    return True


def check_snapshot(log: Log) -> None:
    """Whatever was folded can be stored, read, and gone on from."""
    assert load_session(log.type, dump_session(log.type, log.folded)) == log.folded


@given(steps)
def test_consulting_is_one_question_and_one_answer(sent: list[tuple[str, str]]) -> None:
    log, said = Log.open("consulting"), 0
    for sender, event_type in sent:
        allowed = sender in "ab" and (event_type == CUSTOM or (said < 2 and sender == "ab"[said]))
        assert accepted(log, sender, event_type, text="x") is allowed
        said += allowed and event_type == EV_TEXT
        assert log.type.end_reason(log.folded.state) == ("consulting_complete" if said == 2 else None)
        assert log.speaker == (None if said == 2 else "ab"[said])
        check_snapshot(log)


@given(steps)
def test_a_conversation_has_no_turns(sent: list[tuple[str, str]]) -> None:
    log = Log.open("conversation")
    for sender, event_type in sent:
        assert accepted(log, sender, event_type, text="x") is (sender in "ab")
        assert (log.speaker, log.type.end_reason(log.folded.state)) == (None, None)
        check_snapshot(log)


@given(st.lists(st.tuples(senders, st.sampled_from([EV_TEXT, EV_TEXT, CUSTOM]), st.just("")) | violations, max_size=30))
def test_a_discussion_goes_round(sent: list[tuple[str, str, str]]) -> None:
    """The model is a queue: who has spoken, or is passed over, goes to its end."""
    log, queue, hidden = Log.open("discussion", MEMBERS), list("abcd"), 0
    for sender, what, violator in sent:
        if sender == HUB_ID:
            log.send(HUB_ID, EV_EXPECTATION_VIOLATED, action=what, violators=[violator])
            if what == "hide" and queue[:1] == [violator]:
                queue.append(queue.pop(0))
                hidden += 1
            elif what == "remove" and violator in queue:
                queue.remove(violator)
                hidden = 0
        else:
            allowed = sender in queue and (what == CUSTOM or sender == queue[0])
            assert accepted(log, sender, what, text="x") is allowed
            if allowed and what == EV_TEXT:
                queue.append(queue.pop(0))
                hidden = 0
        assert log.speaker == (queue[0] if queue else None)
        assert (log.type.end_reason(log.folded.state) is not None) is (len(queue) < 2 or hidden >= len(queue))
        check_snapshot(log)


GRAPH = TransitionGraph(
    transitions=(
        Transition(when=ContextEquals(key="mood", value="stay"), then=Stay(), priority=1),
        Transition(when=ToolCalled(tool="ask_c"), then=ToAgent(agent="agent-c"), priority=1),
        Transition(when=FromSpeaker(agent="agent-b"), then=ToAgent(agent="agent-d"), priority=2),
        Transition(when=ToolCalled(tool="first"), then=ToAgent(agent="agent-a"), priority=-1),
    ),
    default_target=RoundRobin(),
    max_turns=12,
)
moods = st.sampled_from([None, "stay", "go"])
workflow_steps = st.lists(
    st.tuples(
        senders,
        st.sampled_from([EV_TEXT, EV_TEXT, EV_HANDOFF, EV_CONTEXT_SET, CUSTOM]),
        st.sampled_from([None, "ask_c", "first", "other"]),
        moods,
        st.sampled_from(["agent-a", "agent-d", "c", "nobody"]),
    ),
    max_size=30,
)


def model_next(speaker: str, tool: str | None, mood: str | None) -> str:
    if tool == "first":
        return "a"
    if mood == "stay":
        return speaker
    if tool == "ask_c":
        return "c"
    return "d" if speaker == "b" else "abcd"[("abcd".index(speaker) + 1) % 4]


@given(workflow_steps)
def test_a_workflow_follows_its_graph(sent: list[tuple[str, str, str | None, str | None, str]]) -> None:
    log = Log.open("workflow", MEMBERS, graph=GRAPH.model_dump(mode="json"), context_vars={"mood": "go"})
    speaker, mood, turns = "a", "go", 0
    for sender, event_type, tool, wanted, target in sent:
        update = {"set": {"mood": wanted}} if wanted else {}
        data = update if event_type == EV_CONTEXT_SET else {"tool": tool, "target": target, "context_updates": update}
        is_turn = event_type in (EV_TEXT, EV_HANDOFF)
        allowed = sender in "abcd" and (not is_turn or (sender == speaker and turns < 12))
        allowed = allowed and not (event_type == EV_HANDOFF and target == "nobody")
        assert accepted(log, sender, event_type, **data) is allowed
        if allowed and event_type != CUSTOM:
            mood = wanted or mood
        if allowed and is_turn:
            turns += 1
            speaker = target[-1] if event_type == EV_HANDOFF else model_next(speaker, tool, mood)
        assert log.speaker == (None if turns == 12 else speaker)
        assert log.type.end_reason(log.folded.state) == ("max_turns" if turns == 12 else None)
        assert log.folded.state.context_vars == {"mood": mood}
        check_snapshot(log)


def test_a_variable_that_is_true_is_not_one_that_is_1() -> None:
    when = ContextEquals(key="done", value={"all": [True]})
    graph = TransitionGraph(transitions=(Transition(when=when, then=Stay()),), default_target=RoundRobin())
    log = Log.open("workflow", 2, graph=graph.model_dump(mode="json"), context_vars={"done": {"all": [1]}})
    log.send("a", text="x")
    log.send("b", text="x", context_updates={"set": {"done": {"all": [True]}}})
    assert log.speaker == "b"


def test_a_sequence_ends_after_its_last_speaker() -> None:
    graph = TransitionGraph.sequence("agent-b", "agent-a", "agent-c")
    log = Log.open("workflow", 3, graph=graph.model_dump(mode="json"))
    for sender in "bac":
        assert log.speaker == sender
        log.send(sender, text="x")
    assert (log.speaker, log.type.end_reason(log.folded.state)) == (None, "workflow_complete")


def test_a_turn_may_finish_a_workflow_and_variables_can_be_deleted() -> None:
    log = Log.open("workflow", 2, context_vars={"x": 1, "y": 2})
    log.send("b", EV_CONTEXT_SET, delete=["x"])
    log.send("a", EV_FINISH, summary="done", context_updates={"set": {"z": 3}})
    assert log.folded.state.context_vars == {"y": 2, "z": 3}
    assert log.type.end_reason(log.folded.state) == "workflow_finished"


@pytest.mark.parametrize("graph", ["round", "sequence"])
@pytest.mark.parametrize("action", ["hide", "remove"])
def test_whoever_follows_a_late_speaker_has_its_turn(action: str, graph: str) -> None:
    in_turn = TransitionGraph.sequence("agent-a", "agent-b", "agent-c")
    chosen = TransitionGraph.round_robin() if graph == "round" else in_turn
    log = Log.open("workflow", 3, graph=chosen.model_dump(mode="json"))
    log.send("a")
    log.send(HUB_ID, EV_EXPECTATION_VIOLATED, action=action, violators=["b"])
    assert log.speaker == "c"


def test_a_handoff_may_leave_it_to_the_graph() -> None:
    escalates = Transition(when=ToolCalled(tool="escalate"), then=ToAgent(agent="agent-c"))
    graph = TransitionGraph(transitions=(escalates,), default_target=RoundRobin())
    log = Log.open("workflow", 3, graph=graph.model_dump(mode="json"))
    log.send("a", EV_HANDOFF, tool="escalate", reason="too hard")
    assert log.speaker == "c"


def test_the_reason_of_a_finish_is_kept_short() -> None:
    log = Log.open("workflow", 3, graph=TransitionGraph.round_robin().model_dump(mode="json"))
    log.send("a", EV_FINISH, reason=["\u200b" * 5000])
    assert len(log.type.end_reason(log.folded.state) or "") == 500


@pytest.mark.parametrize(
    ("action", "speaker", "end"), [("hide", "b", None), ("remove", "b", None), ("warn", "a", None)]
)
def test_a_late_speaker_of_a_workflow(action: str, speaker: str, end: str | None) -> None:
    log = Log.open("workflow", 3)
    log.send(HUB_ID, EV_EXPECTATION_VIOLATED, action=action, violators=["a"], expectation="turn_within")
    assert (log.speaker, log.type.end_reason(log.folded.state)) == (speaker, end)
    assert log.folded.info.has("a") is (action != "remove")


@pytest.mark.parametrize(
    ("kind", "agents", "knobs", "fault"),
    [
        ("consulting", 3, {}, "consulting: needs 2 participants, the creator included, and has 3"),
        ("discussion", 1, {}, "discussion: needs at least 2 participants"),
        ("discussion", 2, {"ordering": "dynamic"}, "discussion: knobs.ordering: Input should be 'round_robin'"),
        ("conversation", 2, {"speed": 1}, "conversation: knobs.speed: unknown field; remove it"),
        ("workflow", 2, {"graph": {"initial_speaker": "bob"}}, "knobs.graph.initial_speaker: bob does not take part"),
        ("workflow", 2, {"graph": {"max_turns": 0}}, "workflow: knobs.graph.max_turns"),
    ],
)
def test_a_session_that_cannot_be_opened_says_why(kind: str, agents: int, knobs: dict[str, Any], fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        begin(SESSION_TYPES[kind], info(kind, agents, **knobs))


def test_a_graph_that_names_nobody_has_an_error_of_its_own() -> None:
    graph = {"transitions": [{"when": {"kind": "always"}, "then": {"kind": "agent", "agent": "bob"}}]}
    with pytest.raises(WorkflowGraphError, match=r"knobs.graph.transitions.0.then.agent: bob does not take part"):
        begin(SESSION_TYPES["workflow"], info("workflow", 2, graph=graph))


@pytest.mark.parametrize(
    ("sender", "event_type", "audience", "fault"),
    [
        ("a", EV_SESSION_CLOSED, None, "event_type: only the hub sends ag2.session.closed"),
        ("a", EV_EXPECTATION_VIOLATED, None, "event_type: only the hub"),
        ("a", EV_TEXT, ("b", "z"), "audience: z does not take part"),
        ("b", EV_SESSION_INVITE_ACK, None, "no invitation of b waits"),
    ],
)
def test_what_no_type_allows(sender: str, event_type: str, audience: tuple[str, ...] | None, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        Log.open("conversation").send(sender, event_type, audience)


def test_nothing_is_said_before_a_session_is_open_or_after_it_is_over() -> None:
    kind = SESSION_TYPES["conversation"]
    log = Log(begin(kind, info("conversation", 2)), kind)
    with pytest.raises(ProtocolError, match="is not open yet"):
        log.send("a", text="x")
    log = Log.open("conversation")
    log.send(HUB_ID, EV_SESSION_CLOSED, reason="explicit_close")
    with pytest.raises(ProtocolError, match="is closed: explicit_close"):
        log.send("a", text="x")


def test_expectations_are_due_from_what_they_wait_for() -> None:
    def due(log: Log) -> dict[str, tuple[int, tuple[str, ...]]]:
        wanted = expectations_of(log.type, log.folded.info)
        return {
            wanted[one.index].name: (one.due_at, one.violators) for one in overdue_times(log.type, log.folded, wanted)
        }

    log = Log.open("consulting")
    assert due(log) == {"reply_within": (1010 + 600_000, ("a",))}
    log.send("a", text="x")
    assert due(log) == {"reply_within": (1020 + 600_000, ("b",))}
    log.send("b", text="y")
    assert due(log) == {}
    chosen = [{"name": "max_silence", "seconds": 1, "on_violation": "warn"}]
    log = Log.open("conversation", expectations=chosen)
    log.send("a", text="x")
    log.send(HUB_ID, EV_EXPECTATION_VIOLATED, action="warn", violators=[])
    assert due(log) == {"max_silence": (1020 + 1000, ("a", "b"))}


def test_a_fold_of_a_tail_is_the_fold_of_the_whole() -> None:
    log = Log.open("workflow", 3)
    for sender in "abca":
        log.send(sender, text="x")
    kind, whole = log.type, begin(log.type, info("workflow", 3))
    for at, envelope in enumerate(log.envelopes):
        whole = fold(kind, load_session(kind, dump_session(kind, whole)), envelope)
        assert whole.sequence == at + 1
    assert whole == log.folded
    with pytest.raises(AccessDeniedError, match="z does not take part"):
        validate(kind, whole, log.envelopes[-1].model_copy(update={"sender_id": "z"}))
