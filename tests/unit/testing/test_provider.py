"""The scripted provider over a real socket, through the clients that people use."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agent_common.protocol import ModelCard, Pricing
from agent_testing import Call, Drop, Fail, Garbage, Hang, Raw, Recorded, Say, ScriptedProvider, Step

COMPLETIONS = "/chat/completions"
TEN = ("one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ", "nine ", "ten")


def ask(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def streamed(provider: ScriptedProvider, **more: Any) -> list[dict[str, Any]]:
    """The events of a streamed answer, without `[DONE]`, which must be the last."""
    body = httpx.post(provider.url + COMPLETIONS, json=ask(stream=True, **more)).text
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def deltas(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (event["choices"][0]["delta"] for event in events if event["choices"])


def test_steps_are_used_in_order_and_requests_are_recorded() -> None:
    with ScriptedProvider([Say("one"), Say("two")]) as provider, httpx.Client(base_url=provider.url) as client:
        answers = [client.post(COMPLETIONS, json=ask(text)).json() for text in ("a", "b")]
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == ["one", "two"]
        assert [request.last_user_text for request in provider.completions] == ["a", "b"]
        first = provider.requests[0]
        assert (first.method, first.path) == ("POST", "/v1/chat/completions")
        assert first.headers["content-type"] == "application/json"
        assert json.loads(first.body) == first.json == first.fields
        assert first.received_at <= time.monotonic()
        provider.clear()
        assert provider.requests == []


def test_a_script_that_has_run_out_says_so() -> None:
    with ScriptedProvider([]) as provider:
        reply = httpx.post(provider.url + COMPLETIONS, json=ask("surprise"))
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "script_exhausted"
    assert "surprise" in reply.json()["error"]["message"]


def test_what_comes_behind_the_script_can_be_a_step_or_a_function() -> None:
    with ScriptedProvider([Say("one")], otherwise=Say("more")) as provider:
        for expected in ("one", "more", "more"):
            reply = httpx.post(provider.url + COMPLETIONS, json=ask())
            assert reply.json()["choices"][0]["message"]["content"] == expected

    def upper(request: Recorded) -> Step:
        return Say(request.last_user_text.upper())

    for provider in (ScriptedProvider(upper), ScriptedProvider([], otherwise=upper)):
        with provider:
            reply = httpx.post(provider.url + COMPLETIONS, json=ask("loud"))
            assert reply.json()["choices"][0]["message"]["content"] == "LOUD"


def test_a_stream_has_a_word_a_piece_and_usage_only_when_asked_for() -> None:
    with ScriptedProvider(otherwise=Say("a few words", reasoning="let me think")) as provider:
        plain = streamed(provider)
        assert [delta.get("reasoning_content") or delta.get("content") for delta in deltas(plain)] == [
            *("", "let ", "me ", "think", "a ", "few ", "words"),
            None,
        ]
        assert plain[-1]["choices"][0]["finish_reason"] == "stop"
        assert all("usage" not in event for event in plain)
        counted = streamed(provider, stream_options={"include_usage": True})[-1]
        prompt = -(-len(provider.requests[-1].body) // 4)
        assert counted["choices"] == []
        assert counted["usage"] == {
            "prompt_tokens": prompt,
            "completion_tokens": 6,
            "total_tokens": prompt + 6,
            "completion_tokens_details": {"reasoning_tokens": 3},
        }


def test_usage_and_finish_reason_can_be_told() -> None:
    usage = {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}
    with ScriptedProvider([Say("x", usage=usage, finish_reason="length")]) as provider:
        reply = httpx.post(provider.url + COMPLETIONS, json=ask()).json()
    assert reply["usage"] == {**reply["usage"], **usage, "completion_tokens": 1}
    assert reply["choices"][0]["finish_reason"] == "length"


async def test_several_calls_reach_the_openai_client_streamed_and_whole() -> None:
    import openai

    step = Say("first", calls=(Call("read", {"path": "a.txt"}, id="call_a"), Call("bash", '{"command": ')))
    with ScriptedProvider(otherwise=step) as provider:
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(**ask())
            message = whole.choices[0].message
            assert whole.choices[0].finish_reason == "tool_calls"
            assert message.content == "first"
            assert next(call.id for call in message.tool_calls) == "call_a"
            assert [call.function.arguments for call in message.tool_calls] == ['{"path": "a.txt"}', '{"command": ']

            found: dict[int, list[str | None]] = {}
            async for chunk in await client.chat.completions.create(**ask(), stream=True):
                for piece in chunk.choices[0].delta.tool_calls or ():
                    assert piece.function
                    found.setdefault(piece.index, [piece.function.name]).append(piece.function.arguments)
            assert found == {0: ["read", "", '{"path": "a.txt"}'], 1: ["bash", "", '{"command": ']}


def test_no_call_is_made_when_the_caller_forbids_it() -> None:
    with ScriptedProvider([Call("read", {}), Call("read", {}, text="done")]) as provider:
        for expected in ("ok", "done"):
            reply = httpx.post(provider.url + COMPLETIONS, json=ask(tool_choice="none")).json()
            assert reply["choices"][0]["message"] == {"role": "assistant", "content": expected}
            assert reply["choices"][0]["finish_reason"] == "stop"


async def test_a_failure_carries_status_code_and_retry_after() -> None:
    import openai

    failures = [Fail(429, "slow down", code="rate_limit", retry_after=1.5), Fail(502, body="<html>bad gateway</html>")]
    with ScriptedProvider(failures) as provider:
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
            with pytest.raises(openai.RateLimitError) as limited:
                await client.chat.completions.create(**ask())
            assert limited.value.code == "rate_limit"
            assert limited.value.response.headers["retry-after"] == "1.5"
            with pytest.raises(openai.APIStatusError) as broken:
                await client.chat.completions.create(**ask())
            assert broken.value.response.text == "<html>bad gateway</html>"


def test_a_drop_before_the_reply_leaves_nothing_and_one_in_the_stream_leaves_its_pieces() -> None:
    with ScriptedProvider([Drop(), Drop(after=2), Drop(after=99), Drop(after=1)]) as provider:
        url = provider.url + COMPLETIONS
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            httpx.post(url, json=ask(stream=True))
        for words in (TEN[:2], TEN):
            received: list[str] = []
            with (
                httpx.stream("POST", url, json=ask(stream=True)) as reply,
                pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
            ):
                received.extend(reply.iter_text())
            assert [word for word in words if f'"content": "{word}"' not in "".join(received)] == []
            assert ('"finish_reason": "stop"' in "".join(received)) is (len(words) == 10)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(url, json=ask())


def test_a_clean_drop_ends_the_stream_without_a_finish() -> None:
    with ScriptedProvider([Drop(after=1, clean=True)]) as provider:
        text = httpx.post(provider.url + COMPLETIONS, json=ask(stream=True)).text
    assert "one " in text
    assert "two " not in text
    assert "[DONE]" not in text


def test_a_reply_hangs_until_it_is_released() -> None:
    with (
        ScriptedProvider([Hang(after=1, reply=Say("one two")), Say("later")]) as provider,
        ThreadPoolExecutor(1) as pool,
        httpx.stream("POST", provider.url + COMPLETIONS, json=ask(stream=True)) as reply,
    ):
        lines = reply.iter_lines()
        received = ""
        while "one " not in received:
            received = next(lines)
        rest = pool.submit(lambda: "".join(lines))
        assert httpx.post(provider.url + COMPLETIONS, json=ask()).json()["choices"][0]["message"]["content"] == "later"
        assert not rest.done()
        provider.release()
        assert rest.result(10).endswith("[DONE]")


def test_a_release_that_comes_while_the_request_is_recorded_is_not_lost() -> None:
    def released_at_once(request: Recorded) -> Step:
        provider.release()
        return Hang(reply=Say("here"))

    with ScriptedProvider([], otherwise=released_at_once) as provider:
        reply = httpx.post(provider.url + COMPLETIONS, json=ask(), timeout=60)
    assert reply.json()["choices"][0]["message"]["content"] == "here"


def test_a_reply_that_nobody_releases_loses_its_connection() -> None:
    with ScriptedProvider([Hang(seconds=0.05)]) as provider, pytest.raises(httpx.RemoteProtocolError):
        httpx.post(provider.url + COMPLETIONS, json=ask(stream=True))


def test_the_provider_stops_while_a_reply_hangs() -> None:
    with ThreadPoolExecutor(1) as pool:
        with ScriptedProvider([Hang()]) as provider:
            waiting = pool.submit(httpx.post, provider.url + COMPLETIONS, json=ask())
            provider.wait_for(1)
        assert isinstance(waiting.exception(10), httpx.TransportError)


def test_garbage_is_sent_as_it_stands_and_may_lie_about_its_length() -> None:
    with ScriptedProvider([Garbage(), Garbage("{}", "application/json", length=99)]) as provider:
        assert '{"delta": {"conte\n' in httpx.post(provider.url + COMPLETIONS, json=ask(stream=True)).text
        with pytest.raises(httpx.RemoteProtocolError, match="expected 99"):
            httpx.post(provider.url + COMPLETIONS, json=ask())


def test_pieces_and_pauses_are_kept() -> None:
    with ScriptedProvider([Say(pieces=("a", "b", "c"), wait=0.05, delay=0.05)]) as provider:
        started = time.monotonic()
        events = streamed(provider)
        assert time.monotonic() - started >= 0.15
    assert [delta.get("content") for delta in deltas(events)] == ["", "a", "b", "c", None]


def test_requests_on_one_connection_are_answered_in_their_order() -> None:
    """Pipelining: the second request comes while the first one's reply still waits."""
    with ScriptedProvider([Say("slow", wait=0.05), Say("quick")]) as provider:
        body = json.dumps(ask()).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
        raw = _exchange(
            provider, (head + "\r\n").encode() + body + (head + "connection: close\r\n\r\n").encode() + body
        )
        assert 0 < raw.index(b"slow") < raw.index(b"quick")


def test_what_is_not_http_or_not_json_is_refused() -> None:
    with ScriptedProvider() as provider:
        assert _exchange(provider, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
        for content in (b"{", b"[]"):
            assert httpx.post(provider.url + COMPLETIONS, content=content).status_code == 400
        assert httpx.get(provider.url + "/nowhere").status_code == 404


def test_waiting_for_requests_has_a_deadline() -> None:
    with ScriptedProvider() as provider, ThreadPoolExecutor(1) as pool:
        with pytest.raises(TimeoutError, match="0 of 1"):
            provider.wait_for(1, timeout=0.01)
        arrived = pool.submit(provider.wait_for, 2)
        for text in ("a", "b"):
            httpx.post(provider.url + COMPLETIONS, json=ask(text))
        assert [request.last_user_text for request in arrived.result(10)] == ["a", "b"]


async def test_models_and_embeddings() -> None:
    import openai

    priced = ModelCard(id="priced", context_limit=1000, pricing=Pricing(input=1, output=2))
    with ScriptedProvider(models=("plain", priced)) as provider:
        async with httpx.AsyncClient() as plain_client:
            listed = (await plain_client.get(provider.url + "/models")).json()["data"]
        assert [model["id"] for model in listed] == ["plain", "priced"]
        assert ModelCard.model_validate(listed[1]) == priced
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="none") as client:
            found = await client.embeddings.create(model="e", input=["red fox", "a red fox", "blue whale"])
            near, far = (_dot(found.data[0].embedding, found.data[at].embedding) for at in (1, 2))
            assert near > far
            plain = await client.embeddings.create(model="e", input="red fox", encoding_format="float", dimensions=8)
            assert len(plain.data[0].embedding) == 8


def test_a_port_in_use_is_reported() -> None:
    with ScriptedProvider() as provider:
        port = httpx.URL(provider.url).port or 0
        with pytest.raises(OSError, match="in use"), ScriptedProvider(port=port):
            pass


def _dot(left: list[float], right: list[float]) -> float:
    return sum(one * other for one, other in zip(left, right, strict=True))


def _exchange(provider: ScriptedProvider, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", httpx.URL(provider.url).port or 0), timeout=60) as connection:
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def test_any_response_is_sent_in_its_pieces() -> None:
    with ScriptedProvider([Raw(("a", "\xe9", ""), 524, {"x-odd": "1"}, "latin-1", delay=0.001)]) as provider:
        reply = httpx.post(f"{provider.url}/chat/completions", json={"messages": []})
    assert (reply.status_code, reply.content, reply.headers["x-odd"]) == (524, b"a\xe9", "1")


def test_a_body_goes_on_with_heartbeats_until_its_reader_has_enough() -> None:
    step = Raw(("data: [DONE]\n\n",), heartbeat=": ping\n\n", heartbeat_seconds=0.01)
    with (
        ScriptedProvider([step]) as provider,
        httpx.stream("POST", f"{provider.url}/chat/completions", json={"messages": []}) as reply,
    ):
        lines = reply.iter_lines()
        assert [next(lines) for _ in range(5)] == ["data: [DONE]", "", ": ping", "", ": ping"]


def test_a_strict_provider_refuses_by_its_rules_without_using_up_a_step() -> None:
    with ScriptedProvider([Say("fine")], models=Raw(("[]",), headers={"content-length": "2"})) as provider:
        provider.script.refuse(lambda body: "max_tokens" in body, Fail(400, "no max_tokens"))
        url = f"{provider.url}/chat/completions"
        assert httpx.post(url, json={"messages": [], "max_tokens": 1}).status_code == 400
        assert httpx.post(url, json={"messages": []}).status_code == 200
        assert httpx.get(f"{provider.url}/models").json() == []
