"""What one model is sent of a session: what it gave goes back to it alone, and what it refuses is rewritten."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from pydantic_core import to_json

from agent_common.profiles import accepted_messages
from agent_common.protocol import Profile
from agent_runtime.context import Step, ToolCallRecord, View
from agent_runtime.context.provider_messages import serialize_step
from agent_runtime.mesh.dialect import messages_for, tools_for
from agent_runtime.ports import ModelRequest

SIGNED = {"extra_content": {"google": {"thought_signature": "QUJD"}}}
LONG_ID = "call_5f1c__thought__" + "QUJD" * 40
DONE = {"type": "output", "data": "text", "metadata": {}}


def view_of(*steps: Step) -> View:
    view = View("prompt")
    view.add_user([{"type": "text", "text": "go"}], message_id="m1")
    for step in steps:
        view.add_step(step)
    return view


def called(call_id: str = "call_1", kept: dict[str, Any] | None = None, **step: Any) -> Step:
    call = ToolCallRecord(call_id, "read", {"path": "a"}, DONE, kept=kept or {})
    return Step(calls=[call], **step)


def sent(view: View, maker: str = "g/gemini", **profile: Any) -> list[dict[str, Any]]:
    return [json.loads(message) for message in raw(view, maker, **profile)]


def raw(view: View, maker: str = "g/gemini", **profile: Any) -> Sequence[bytes]:
    request = ModelRequest("m", view.messages, fields=view.fields, turn_start=view.turn_start)
    return messages_for(request, maker, Profile(**profile))


def test_what_a_model_gave_with_a_call_goes_back_to_it_alone() -> None:
    view = view_of(called(kept={"model": "g/gemini", "call": SIGNED}))
    (call,) = sent(view)[2]["tool_calls"]
    assert call["extra_content"] == SIGNED["extra_content"]
    assert raw(view, "other/gemini") == view.messages
    assert b"QUJD" not in b"".join(view.messages)


@pytest.mark.parametrize(("kept_fields", "blanks"), [(None, [1, 3]), ("turn", [0, 1, 3]), (False, [])])
def test_a_call_of_another_model_counts_as_signed_unless_that_is_refused(kept_fields: Any, blanks: list[int]) -> None:
    several = Step(calls=[*called("call_a").calls, *called("call_b").calls])
    view = view_of(called(kept={"model": "g/gemini", "call": SIGNED}), several)
    view.add_user([{"type": "text", "text": "and"}], message_id="m2")
    view.add_step(called("call_2", kept={"model": "g/gemini", "call": SIGNED}))
    view.add_step(called("call_3", kept={"model": "o/gpt", "call": {"mark": "S"}}))
    messages = sent(view, signature_blank="blank", kept_fields=kept_fields)
    calls = [message["tool_calls"] for message in messages if message["role"] == "assistant"]
    blank = {"google": {"thought_signature": "blank"}}
    assert [at for at, made in enumerate(calls) if made[0].get("extra_content") == blank] == blanks
    assert "extra_content" not in calls[1][1], "it stands at the first of several calls"
    assert b"extra_content" not in b"".join(raw(view, "other"))


def test_an_id_that_was_too_long_for_the_record_goes_back_with_its_result() -> None:
    view = view_of(called(kept={"model": "g/gemini", "id": LONG_ID}))
    _, _, assistant, result = sent(view)
    assert assistant["tool_calls"][0]["id"] == result["tool_call_id"] == LONG_ID
    assert sent(view, "other")[3]["tool_call_id"] == "call_1"


@pytest.mark.parametrize(
    ("policy", "with_reasoning"), [(None, [0, 1]), ("always", [0, 1]), ("turn", [1]), ("never", [])]
)
def test_reasoning_goes_back_as_the_profile_says(policy: Any, with_reasoning: list[int]) -> None:
    kept = {"model": "g/gemini", "reasoning": "reasoning_content", "message": {"reasoning_details": [{"text": "hm"}]}}
    view = view_of(called(kept=kept | {"call": SIGNED}, reasoning="hm"))
    view.add_user([{"type": "text", "text": "and"}], message_id="m2")
    view.add_step(called("call_2", kept=kept | {"call": SIGNED}, reasoning="hm"))
    messages = [message for message in sent(view, reasoning=policy) if message["role"] == "assistant"]
    for member in ("reasoning_content", "reasoning_details"):
        assert [at for at, message in enumerate(messages) if message.get(member)] == with_reasoning
    assert all(message["tool_calls"][0]["extra_content"] for message in messages)


def test_what_it_gave_does_not_go_back_where_it_is_refused() -> None:
    kept = {"model": "g/gemini", "id": LONG_ID, "reasoning": "reasoning_content", "message": {"marks": [1]}}
    view = view_of(called(kept=kept | {"call": SIGNED}, reasoning="hm"))
    for refused in (False, True, False):
        _, _, message, result = sent(view, kept_fields=False) if refused else sent(view)
        assert ("marks" in message, "extra_content" in message["tool_calls"][0]) == (not refused, not refused)
        assert message["reasoning_content"] == "hm"
        assert message["tool_calls"][0]["id"] == result["tool_call_id"] == LONG_ID


@pytest.mark.parametrize(("policy", "with_kept"), [(None, [0, 1]), (True, [0, 1]), ("turn", [1]), (False, [])])
def test_what_it_gave_goes_back_as_the_profile_says(policy: Any, with_kept: list[int]) -> None:
    view = view_of(called(kept={"model": "g/gemini", "message": {"marks": [1]}, "call": SIGNED}))
    view.add_user([{"type": "text", "text": "and"}], message_id="m2")
    view.add_step(called("call_2", kept={"model": "g/gemini", "message": {"marks": [1]}, "call": SIGNED}))
    messages = [message for message in sent(view, kept_fields=policy) if message["role"] == "assistant"]
    assert [at for at, message in enumerate(messages) if "marks" in message] == with_kept
    signed = [at for at, message in enumerate(messages) if "extra_content" in message["tool_calls"][0]]
    assert signed == with_kept


def test_each_message_has_reasoning_for_a_model_that_gave_some_and_none_for_others() -> None:
    plain, thought = (
        called("call_1"),
        called("call_2", {"model": "d/ds", "reasoning": "reasoning_content"}, reasoning="hm"),
    )
    view = view_of(plain, thought, Step(text="done"))
    given = [message.get("reasoning_content") for message in sent(view, "d/ds") if message["role"] == "assistant"]
    assert given == ["", "hm", ""]
    blank = [m.get("reasoning_content") for m in sent(view, "d/ds", reasoning_blank=" ") if m["role"] == "assistant"]
    assert blank == [" ", "hm", " "]
    assert not any("reasoning_content" in message for message in sent(view, "other"))


def test_reasoning_that_came_as_content_goes_back_as_content() -> None:
    view = view_of(Step(text="4", reasoning="hm", kept={"model": "m/mistral", "reasoning": "content"}))
    thinking, text = sent(view, "m/mistral")[2]["content"]
    assert (thinking["thinking"][0]["text"], text) == ("hm", {"type": "text", "text": "4"})


def test_the_beginning_of_a_prompt_stays_the_same() -> None:
    view = view_of(called(kept={"model": "g/gemini", "call": SIGNED, "reasoning": "reasoning_content"}, reasoning="hm"))
    rules: dict[str, Any] = {"call_ids": "nine", "user_after_tool": False, "two_users": False, "null_content": False}
    before: Sequence[bytes] = []
    for turn in range(3):
        for profile in ({}, rules):
            first, second = raw(view, **profile), raw(view, **profile)
            assert list(first) == list(second)
        messages = raw(view, **rules)
        assert list(messages[: len(before)]) == list(before)
        before = messages
        view.add_step(called(f"call_{turn + 2}", {"model": "g/gemini", "call": SIGNED}, notices=["hurry"]))


@pytest.mark.parametrize(
    ("rule", "given", "shape"),
    [
        ("nine", "call_0", r"[A-Za-z0-9]{9}"),
        ("nine", "abcDEF123", "abcDEF123"),
        ("short", "c" * 46, r"call_[A-Za-z0-9]{24}"),
        ("short", "call_0", "call_0"),
        ("short", "a.b c", r"call_[A-Za-z0-9]{24}"),
    ],
)
def test_ids_are_rewritten_where_they_are_refused_the_same_in_call_and_result(
    rule: Any, given: str, shape: str
) -> None:
    messages = sent(view_of(called(given)), call_ids=rule)
    call_id = messages[2]["tool_calls"][0]["id"]
    assert re.fullmatch(shape, call_id)
    assert messages[3]["tool_call_id"] == call_id
    assert sent(view_of(called(given)), call_ids=rule) == messages


def in_turns(*turns: Sequence[str], maker: str | None = None) -> View:
    """A session whose turns have a step with calls of these ids each."""
    view = View("prompt")
    for at, ids in enumerate(turns):
        view.add_user([{"type": "text", "text": "go"}], message_id=f"m{at}")
        kept = {} if maker is None else {"model": maker, "call": SIGNED}
        view.add_step(Step(calls=[call for one in ids for call in called(one, kept).calls]))
    return view


def ids_of(messages: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize(
    ("turns", "numbered"),
    [
        ([["call_0"], ["call_0"], ["call_0"]], ["call_0", "call_0_2", "call_0_3"]),
        ([["call_0", "call_1"], ["call_0", "call_1"]], ["call_0", "call_1", "call_0_2", "call_1_2"]),
        ([["call_0"], ["call_0_2"], ["call_0"]], ["call_0", "call_0_2", "call_0_3"]),
        ([["call_0"], ["call_0"], ["call_0_2"]], ["call_0", "call_0_2", "call_0_2_2"]),
        ([["a.b c"], ["a.b c"]], ["a.b c", "a.b c_2"]),
        ([["call_0"], ["call_1"]], ["call_0", "call_1"]),
    ],
)
@pytest.mark.parametrize("maker", [None, "g/gemini"])
def test_a_call_has_an_id_that_no_other_of_the_request_has(
    turns: list[list[str]], numbered: list[str], maker: str | None
) -> None:
    calls, results = ids_of(sent(in_turns(*turns, maker=maker)))
    assert calls == results == numbered
    for rule in ("nine", "short"):
        calls, results = ids_of(sent(in_turns(*turns, maker=maker), call_ids=rule))
        assert calls == results
        assert len(set(calls)) == len(calls)


@pytest.mark.parametrize("rule", [None, "nine", "short"])
def test_numbered_ids_leave_the_beginning_of_a_prompt_as_it_was(rule: Any) -> None:
    turns = [["call_0"], ["call_0", "call_1"], ["call_0_2"], ["call_0"]]
    requests = [raw(in_turns(*turns[:end]), call_ids=rule) for end in range(1, len(turns) + 1)]
    for before, after in pairwise(requests):
        assert list(after[: len(before)]) == list(before)


def test_equal_ids_within_a_message_go_to_the_results_in_their_order() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    made = [{"role": "assistant", "content": None, "tool_calls": calls}]
    results = [{"role": "tool", "tool_call_id": "c", "content": text} for text in ("of a", "of b", "of b again")]
    given = [json.dumps(message, separators=(",", ":")).encode() for message in (*made, *results)]
    calls_sent, results_sent = ids_of([json.loads(message) for message in accepted_messages(given, Profile())])
    assert calls_sent == ["c", "c_2"]
    assert results_sent == ["c", "c_2", "c_2"]


def test_messages_with_unique_ids_are_sent_as_they_are() -> None:
    view = in_turns(["call_0"], ["call_1"])
    assert accepted_messages(view.messages, Profile()) is view.messages


def test_the_order_of_roles_that_strict_models_take() -> None:
    view = view_of(called(notices=["last step", "hello"]))
    roles = [message["role"] for message in sent(view, user_after_tool=False, two_users=False)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert sent(view, two_users=False)[-1]["content"] == "last step\n\nhello"
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    pictures = [
        b'{"role":"user","content":"see"}',
        json.dumps({"role": "user", "content": [image]}, separators=(",", ":")).encode(),
    ]
    (joined,) = accepted_messages(pictures, Profile(two_users=False))
    assert json.loads(joined)["content"] == [{"type": "text", "text": "see"}, image]


def test_a_model_without_a_system_role_reads_it_before_the_first_message_of_the_user() -> None:
    view = view_of(called(notices=["last step"]))
    system, user, *rest = sent(view)
    first, *others = sent(view, system_role=False)
    assert first == {"role": "user", "content": f"{system['content']}\n\n{user['content']}"}
    assert others == rest
    developer = [b'{"role":"developer","content":"be kind"}', b'{"role":"user","content":"hello"}']
    (joined,) = accepted_messages(developer, Profile(system_role=False))
    assert json.loads(joined) == {"role": "user", "content": "be kind\n\nhello"}
    (alone,) = accepted_messages(
        [b'{"role":"system","content":"say {\\"role\\":\\"system\\""}'], Profile(system_role=False)
    )
    assert json.loads(alone) == {"role": "user", "content": 'say {"role":"system"'}


@pytest.mark.parametrize("order", ["abc", "cab", "ab", "abcx"])
def test_a_model_that_takes_one_call_at_a_time_gets_each_with_its_result(order: str) -> None:
    calls = [{"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}} for name in "abc"]
    said: dict[str, Any] = {"role": "assistant", "content": "I look.", "tool_calls": calls, "reasoning": "hm"}
    results = [{"role": "tool", "tool_call_id": name, "content": f"of {name}"} for name in order]
    user = {"role": "user", "content": "go on"}
    given = [to_json(message) for message in (user, said, *results, user)]
    first, *split, last = (json.loads(one) for one in accepted_messages(given, Profile(several_calls=False)))
    assert first == last == user
    assert [[call["id"] for call in one["tool_calls"]] for one in split if "tool_calls" in one] == [["a"], ["b"], ["c"]]
    assert [one["tool_call_id"] for one in split if one["role"] == "tool"] == sorted(order)
    assert split[0] == said | {"tool_calls": calls[:1]}
    assert split[2] == {"role": "assistant", "content": None, "tool_calls": calls[1:2]}
    for at, message in enumerate(split):
        if message["role"] == "tool" and message["tool_call_id"] != "x":
            assert split[at - 1]["tool_calls"][0]["id"] == message["tool_call_id"]
    assert accepted_messages(given, Profile()) is given


def test_null_beside_calls_is_an_empty_text_where_it_is_refused() -> None:
    assert sent(view_of(called()))[2]["content"] is None
    assert sent(view_of(called()), null_content=False)[2]["content"] == ""


def test_blank_messages_and_impossible_names_are_sent_to_nobody() -> None:
    assert serialize_step(Step(text=" \n\n")) == []
    calls = [ToolCallRecord(name, name, {}, DONE) for name in ("multi_tool_use.parallel", "", "21st_search", "-x")]
    assistant = json.loads(serialize_step(Step(text="\n", calls=calls))[0])
    assert assistant["content"] is None
    assert [made["function"]["name"] for made in assistant["tool_calls"]] == ["invalid_name"] * 4


def test_tools_as_the_model_takes_them() -> None:
    view = view_of(called())
    bare = ModelRequest("m", view.messages)
    assert tools_for(bare, Profile()) is None
    declared = json.loads(tools_for(bare, Profile(tools_with_calls=True)) or b"")
    assert [tool["function"]["name"] for tool in declared] == ["read"]
    tools = json.dumps([{"type": "function", "function": {"name": "read", "description": "d" * 2000}}]).encode()
    (short,) = json.loads(tools_for(ModelRequest("m", [], tools), Profile(description_limit=1024)) or b"")
    assert len(short["function"]["description"]) == 1024
    assert tools_for(ModelRequest("m", [], tools), Profile()) is tools
    (plain,) = json.loads(tools_for(ModelRequest("m", [], tools), Profile(tool_schemas="plain")) or b"")
    assert plain["function"]["parameters"] == {"type": "object"}


def test_nothing_of_an_import_is_believed() -> None:
    odd: list[Any] = [
        {"model": 3},
        {"model": "m", "call": [1], "id": 4, "message": "x", "reasoning": 5},
        [],
        {"call": {}},
    ]
    parts = [
        {"type": "step-start"},
        *(
            {
                "type": "tool-read", "toolCallId": f"c{at}", "state": "output-available", "input": {}, "output": DONE,
                "callProviderMetadata": {"kept": kept},
            }
            for at, kept in enumerate(odd)
        ),
    ]  # fmt: skip
    view = view_of()
    view.add_reply(parts)
    assert len(sent(view, "m")) == 2 + 1 + len(odd)
