"""Pages that send their whole conversation with each message, and conversations that are longer than a page."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Say

from ..live import Runtime, fresh

OK = {"role": "user", "id": "now", "parts": [{"type": "text", "text": "and now?"}]}
ANSWER = {"Accept": "application/json"}


def told(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "id": "m", "parts": [{"type": "text", "text": text}], **fields}


OLD: dict[str, list[Any]] = {
    "nine megabytes": [told("x" * 1_000_000)] * 9,
    "two messages of five megabytes": [told("x" * 5_000_000)] * 2,
    "one message of nine megabytes": [told("x" * 9_000_000)],
    "210,000 values": [told("x", metadata=[0] * 210_000)],
    "210,000 objects": [told("x", metadata=[{"a": {}}] * 70_000)],
    "nested deep": [{"deep": 0}],
    "of another version": [{"role": "tool", "content": None}, 7, None, "text"],
    "an id that is too long": [told("x", id="i" * 500)],
}


def _deep(levels: int) -> Any:
    found: Any = 0
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize("old", OLD.values(), ids=OLD.keys())
def test_only_the_last_message_is_read(agent: Runtime, old: list[Any]) -> None:
    agent.provider.script.replace([Say("still here")])
    if old == [{"deep": 0}]:
        old = [told("x", metadata=_deep(150))]
    reply = agent.post("/chat", {"id": fresh("s"), "messages": [*old, OK]}, **ANSWER)
    assert (reply.status_code, reply.json().get("response")) == (200, "still here"), reply.text[:300]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"messages": [OK, told("x" * 9_000_000)]}, 413, "the last message is larger than"),
        ({"message": "x" * 9_000_000}, 413, "larger than"),
        ({"messages": [OK, told("x", metadata=[0] * 210_000)]}, 422, "more than 200000 values"),
        ({"messages": [], "id": "s"}, 422, "messages"),
    ],
)
def test_the_limits_of_a_body_are_those_of_what_is_used(
    agent: Runtime, body: dict[str, Any], status: int, words: str
) -> None:
    reply = agent.post("/chat", body, **ANSWER)
    assert reply.status_code == status
    assert words in reply.text


DATA = [
    {"type": "data-place", "data": {"lat": 52.5, "secret": "heron"}},
    {"type": "data-chosen", "id": "c1", "data": ["heron"]},
    {"type": "data-steer", "data": None},
]


@pytest.mark.parametrize("data", DATA, ids=[str(one["type"]) for one in DATA])
@pytest.mark.parametrize("shape", ["useChat", "own"])
def test_data_of_the_page_is_kept_and_not_shown_to_the_model(agent: Runtime, data: dict[str, Any], shape: str) -> None:
    agent.provider.script.replace([Say("seen"), Say("again")])
    name, parts = fresh("s"), [data, {"type": "text", "text": "where am I?"}]
    body = {"id": name, "messages": [{"role": "user", "id": "m", "parts": parts}]}
    sent = body if shape == "useChat" else {"session_id": name, "message_id": "m", "parts": parts}
    reply = agent.post("/chat", sent, **ANSWER)
    assert (reply.status_code, reply.json().get("response")) == (200, "seen"), reply.text
    kept = agent.get(f"/sessions/{name}/messages").json()["messages"][0]
    assert kept["parts"] == parts
    assert agent.post("/chat", {"session_id": name, "message": "and now?"}).json()["response"] == "again"
    shown = str(agent.provider.requests[-1].texts)
    assert "heron" not in shown
    assert "where am I?" in shown


@pytest.mark.parametrize("parts", [[DATA[0]], [{"type": "file", "url": "data:,x"}, *OK["parts"]], [{"type": "data-"}]])
def test_a_message_without_text_or_with_files_is_refused_by_name(agent: Runtime, parts: list[Any]) -> None:
    body = {"id": fresh("s"), "messages": [{"role": "user", "id": "m", "parts": parts}]}
    reply = agent.post("/chat", body, **ANSWER)
    assert reply.status_code == 422
    assert "text" in reply.text


def test_a_long_conversation_is_paged_from_its_end(agent: Runtime) -> None:
    name, count = fresh("s"), 5
    agent.provider.script.replace([Say(f"answer {at}") for at in range(count)])
    for at in range(count):
        agent.post("/chat", {"session_id": name, "message": f"question {at}", "message_id": f"m{at}"})
    expected = [text for at in range(count) for text in (f"question {at}", f"answer {at}")]
    path = f"/sessions/{name}/messages"
    assert _texts(agent.get(path).json()) == expected

    seen: list[str] = []
    before, pages = "end", 0
    while before:
        page = agent.get(path, before=before, limit=4).json()
        assert "next" not in page
        seen, before, pages = [*_texts(page), *seen], page.get("previous"), pages + 1
    assert (seen, pages) == (expected, 3)
    assert _texts(agent.get(path, before="m2", limit=3).json()) == expected[1:4]
    assert _texts(agent.get(path, before="m0").json()) == []
    assert "previous" not in agent.get(path, before="end", limit=10).json()
    assert _texts(agent.get(path, after="m3").json()) == expected[7:]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"before": "nobody"}, "before"),
        ({"after": "nobody"}, "after"),
        ({"after": "end"}, "after"),
        ({"before": "end", "after": "m0"}, "not both"),
    ],
)
def test_a_wrong_position_is_named(agent: Runtime, query: dict[str, str], words: str) -> None:
    name = fresh("s")
    agent.provider.script.replace([Say("hello")])
    agent.post("/chat", {"session_id": name, "message": "hi", "message_id": "m0"})
    reply = agent.get(f"/sessions/{name}/messages", **query)
    assert reply.status_code == 422
    assert words in reply.text


def _texts(page: dict[str, Any]) -> list[str]:
    return [part["text"] for one in page["messages"] for part in one["parts"] if part["type"] == "text"]
