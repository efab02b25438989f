"""The double inside a running event loop, with what it remembers of its own answers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..provider import ProviderServer, Recorded, Say, Script, WireReply, json_reply, wire_reply
from .answers import answer_reply, make_answer
from .dialects import Dialect
from .errors import Refusal, refusal_reply
from .rules import check_messages, check_request, texts

MOST_REMEMBERED = 100_000  # answers


class StrictServer(ProviderServer):
    """A provider's chat completions on a loopback port."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        super().__init__(script, ())
        self.dialect = dialect
        self._given: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()

    def refuse(self, error: ValueError) -> WireReply:
        return refusal_reply(self.dialect, error)

    def serve(self, request: Recorded) -> WireReply:
        match request.method, request.path.partition("?")[0]:
            case "POST", "/v1/chat/completions":
                return self._answer(request)
            case "GET", "/v1/models":
                return [json_reply(200, {"object": "list", "data": []})]
            case method, path:
                raise Refusal(f"no route {method} {path}", status=404)

    def _answer(self, request: Recorded) -> WireReply:
        fields = request.fields
        check_request(self.dialect, fields)
        check_messages(self.dialect, request.messages, self._given)
        step = self.script.next(request)
        calls = sum(len(message.get("tool_calls") or ()) for message in request.messages)
        offered = bool(fields.get("tools")) and fields.get("tool_choice") != "none"

        def answer(say: Say) -> WireReply:
            if say.calls and not offered:
                say = Say(say.text or "ok", reasoning=say.reasoning, usage=say.usage)
            made = make_answer(self.dialect, say, calls_before=calls)
            self._remember(made.message)
            self.answers.append((request, [made.message]))
            options: dict[str, Any] = fields.get("stream_options") or {}
            usage = not self.dialect.stream_options or bool(options.get("include_usage"))
            tokens = -(-len(request.body) // 4)
            return answer_reply(
                made, say, str(fields.get("model")), tokens, streamed=bool(fields.get("stream")), usage=usage
            )

        return wire_reply(
            step, answer, lambda failure: json_reply(failure.status, {"error": {"message": failure.message}})
        )

    def _remember(self, message: dict[str, Any]) -> None:
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        for key in [call["id"] for call in calls] or [texts(message["content"])]:
            self._given.setdefault(key, []).append(message)
        while len(self._given) > MOST_REMEMBERED:
            self._given.popitem(last=False)
