"""A model that refuses to be asked for the usage of a stream; and requests that only make its refusal look so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from agent_testing import Fail, Say, ScriptedProvider

from .live import Host, catalog, said

CHAT = "/v1/chat/completions"
NAMED = "unknown stream_options"


def _refusal_of_a_role(body: dict[str, Any]) -> bool:
    return any(message["role"] == NAMED for message in body["messages"])


def _refusal_of_a_member(body: dict[str, Any]) -> bool:
    return "odd" in body.get("stream_options", {})


def test_only_a_refusal_of_the_hosts_own_wish_is_remembered_once_the_call_is_taken_without(tmp_path: Path) -> None:
    with (
        ScriptedProvider(otherwise=Say("fine"), models=("big-1",)) as provider,
        Host(tmp_path / "data", MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk-upstream") as host,
        host.client(host.token("writer")) as agent,
    ):

        def ask(request: dict[str, Any]) -> tuple[httpx.Response, list[bool]]:
            """The reply, and which of the provider's requests asked for the usage."""
            provider.clear()
            reply = agent.post(CHAT, json=request | {"stream": True})
            return reply, ["stream_options" in asked.json for asked in provider.completions]

        words = f"Invalid value: '{NAMED}'. Supported values are: 'user', 'assistant'."
        provider.script.refuse(_refusal_of_a_role, Fail(400, body=json.dumps({"error": {"message": words}})))
        reply, _ = ask({"model": "default", "messages": [{"role": NAMED, "content": "x"}]})
        assert reply.status_code == 400
        provider.script.refuse(_refusal_of_a_member, Fail(400, "Unknown parameter: 'stream_options.odd'."))
        reply, asked = ask(said("hi", stream_options={"odd": True}))
        assert reply.status_code == 400, "what an agent adds itself is its own trouble"
        assert ask(said("hi"))[1] == [True]

        provider.script.refuse(lambda body: "stream_options" in body, Fail(400, "Unknown parameter: 'stream_options'."))
        for _ in range(2):
            reply, asked = ask(said("what are stream_options?"))
            assert (reply.status_code, asked) == (200, [True, False]), "the refusal may have quoted the question"
        for expected in ([True, False], [False]):
            reply, asked = ask(said("hi"))
            assert (reply.status_code, asked) == (200, expected)
