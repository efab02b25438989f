"""The double inside a running event loop: routes, keys, and what it remembers of its own answers."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from ..provider import ProviderServer, Recorded, Say, Script, WireReply, wire_reply
from .answers import Answer, answer_reply, make_answer
from .errors import Refusal, failure_reply, refusal_reply
from .models import ModelRules, rules_of
from .rules import check_items, check_request
from .schema import ResponsesRequest, read_request

RESPONSES = "/v1/responses"
TOKEN_BYTES = 4
MIN_CACHED_TOKENS = 1024
CACHE_STEP = 128
MOST_PROMPTS = 32
MOST_REMEMBERED = 100_000  # items


class ResponsesServer(ProviderServer):
    """OpenAI's Responses API on a loopback port."""

    completions_path = RESPONSES

    def __init__(self, script: Script, api_key: str | None = None) -> None:
        super().__init__(script, ())
        self._api_key = api_key
        self._prompts: deque[str] = deque(maxlen=MOST_PROMPTS)
        self._given: OrderedDict[str, Sequence[dict[str, Any]]] = OrderedDict()

    def refuse(self, error: ValueError) -> WireReply:
        return refusal_reply(error)

    def serve(self, request: Recorded) -> WireReply:
        self._check_key(request.headers)
        match request.method, request.path.partition("?")[0]:
            case "POST", "/v1/responses":
                return self._answer(request)
            case method, path:
                raise Refusal(f"Invalid URL ({method} {path})", status=404)

    def _check_key(self, headers: Mapping[str, str]) -> None:
        key = headers.get("authorization", "").removeprefix("Bearer ")
        if not key:
            raise Refusal("You didn't provide an API key.", status=401)
        if self._api_key is not None and key != self._api_key:
            raise Refusal("Incorrect API key provided.", code="invalid_api_key", status=401)

    def _read(self, request: Recorded) -> tuple[ResponsesRequest, ModelRules]:
        read, items = read_request(request.fields)
        model = rules_of(read.model)
        check_request(read, model)
        check_items(items, self._given, stored=read.store)
        if len(request.body) // TOKEN_BYTES > model.context:
            text = "Your input exceeds the context window of this model. Please adjust your input and try again."
            raise Refusal(text, "input", "context_length_exceeded")
        return read, model

    def _answer(self, request: Recorded) -> WireReply:
        read, model = self._read(request)
        step = self.script.next(request)

        def answer(say: Say) -> WireReply:
            made = make_answer(say, read, model, self._count(read))
            self._remember(made)
            self.answers.append((request, made.items))
            return answer_reply(made, say, streamed=bool(read.stream))

        return wire_reply(step, answer, failure_reply)

    def _count(self, request: ResponsesRequest) -> tuple[int, int]:
        """Return the tokens of the prompt, and how many of them an earlier prompt has begun with."""
        tools = [tool.model_dump() for tool in request.tools or ()]
        prompt = json.dumps([tools, request.instructions, request.input])
        shared = max((_shared(prompt, one) for one in self._prompts), default=0) // TOKEN_BYTES
        self._prompts.append(prompt)
        cached = shared // CACHE_STEP * CACHE_STEP if shared >= MIN_CACHED_TOKENS else 0
        return -(-len(prompt) // TOKEN_BYTES), cached

    def _remember(self, answer: Answer) -> None:
        before: list[dict[str, Any]] = []
        for item in answer.items:
            if item["type"] == "reasoning":
                before = [*(one for one in before if one["type"] == "reasoning"), item]
                self._given[item["id"]] = [item]
                continue
            self._given[item["id"]] = [*before, item]
            before = []
        while len(self._given) > MOST_REMEMBERED:
            self._given.popitem(last=False)


def _shared(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    low = 0
    high = min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
