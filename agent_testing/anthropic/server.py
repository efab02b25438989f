"""The double inside a running event loop: routes, keys, versions, and what it remembers of its own answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from ..provider import ProviderServer, Recorded, Say, Script, WireReply, json_reply, wire_reply
from .answers import Answer, answer_reply, make_answer
from .errors import Refusal, failure_reply, new_request_id, refusal_reply, reply_headers
from .message_rules import check_messages
from .models import LISTED, ModelRules, rules_of
from .prompt_cache import TOKEN_BYTES, PromptCache
from .request_rules import VERSIONS, check_request, thinks
from .schema import Block, CountedRequest, MessagesRequest, RedactedThinking, Thinking, read_request

MESSAGES = "/v1/messages"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
MOST_REMEMBERED = 100_000  # calls whose thinking is remembered


class AnthropicServer(ProviderServer):
    """Anthropic's Messages API on a loopback port."""

    completions_path = MESSAGES

    def __init__(self, script: Script, api_key: str | None = None) -> None:
        super().__init__(script, ())
        self._api_key = api_key
        self._cache = PromptCache()
        self._given: OrderedDict[str, Sequence[Block]] = OrderedDict()
        """The thinking that came before each call, by the call's id."""

    def refuse(self, error: ValueError) -> WireReply:
        return refusal_reply(error)

    def serve(self, request: Recorded) -> WireReply:
        self._check_headers(request.headers)
        match request.method, request.path.partition("?")[0]:
            case "POST", "/v1/messages":
                return self._answer(request)
            case "POST", "/v1/messages/count_tokens":
                self._read(request, counted=True)
                tokens = {"input_tokens": -(-len(request.body) // TOKEN_BYTES)}
                return [json_reply(200, tokens, *reply_headers(new_request_id()))]
            case "GET", "/v1/models":
                listed = [{"type": "model", "id": name, "display_name": name} for name in LISTED]
                return [json_reply(200, {"data": listed, "has_more": False}, *reply_headers(new_request_id()))]
            case method, path:
                raise Refusal(f"{method} {path}: Not Found", 404)

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not key:
            raise Refusal("x-api-key header is required", 401)
        if self._api_key is not None and key != self._api_key:
            raise Refusal("invalid x-api-key", 401)
        if "anthropic-version" not in headers:
            raise Refusal("anthropic-version: header is required")
        if (version := headers["anthropic-version"]) not in VERSIONS:
            raise Refusal(f'anthropic-version: "{version}" is not a valid version')

    def _read(self, request: Recorded, *, counted: bool) -> tuple[CountedRequest, ModelRules]:
        fields = request.fields
        read = read_request(fields, counted=counted)
        model = rules_of(read.model)
        bound = getattr(read.thinking, "block_binding", None) is not None
        if bound and BINDING_BETA not in request.headers.get("anthropic-beta", ""):
            raise Refusal("thinking.adaptive.block_binding: Extra inputs are not permitted")
        check_request(read, model, request.headers["anthropic-version"])
        check_messages(read, model, self._given)
        if (tokens := len(request.body) // TOKEN_BYTES) > model.context:
            raise Refusal(f"prompt is too long: {tokens} tokens > {model.context} maximum")
        return read, model

    def _answer(self, request: Recorded) -> WireReply:
        read, model = self._read(request, counted=False)
        assert isinstance(read, MessagesRequest)  # noqa: S101  what was asked for
        thinking = thinks(read, model)
        shown = getattr(read.thinking, "display", None) != "omitted"
        calls = read.tool_choice is None or read.tool_choice.type != "none"
        step = self.script.next(request)

        def answer(say: Say) -> WireReply:
            prompt = self._cache.use(request.fields)
            made = make_answer(say, read.model, prompt, thinks=thinking, shown=shown, calls=calls and bool(read.tools))
            self._remember(made)
            self.answers.append((request, [{"role": "assistant", "content": made.content}]))
            return answer_reply(made, say, streamed=read.stream)

        return wire_reply(step, answer, failure_reply)

    def _remember(self, answer: Answer) -> None:
        before: list[Block] = []
        for block in answer.content:
            match block["type"]:
                case "thinking":
                    before.append(Thinking.model_validate(block))
                case "redacted_thinking":
                    before.append(RedactedThinking.model_validate(block))
                case "tool_use":
                    self._given[block["id"]] = list(before)
                case _:
                    pass
        while len(self._given) > MOST_REMEMBERED:
            self._given.popitem(last=False)
