"""Convert messages to input items: the system prompt to `instructions`, each result directly behind its calls."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ...json_access import as_list, object_list, text_of
from .kept_items import kept_items
from .parts import input_parts, refused

MAX_CALL_ID = 64
"""Characters that an id of a call may have."""
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NO_RESULT = "there is no result of this call"


class InputItems:
    """The messages of a request as items. Raises ProviderFailed for parts that the API does not take."""

    def __init__(self, messages: list[Any]) -> None:
        self.instructions: list[str] = []
        self.items: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}
        """The id of a call as it was given, and as it is sent."""
        self._sent_ids: set[str] = set()
        self._open: list[str] = []
        """Calls that have no result yet, by the ids that are sent."""
        for message in object_list(messages):
            self._add(message)
        self._close_calls()

    def _add(self, message: dict[str, Any]) -> None:
        role = message.get("role")
        content = message.get("content")
        match role:
            case "system" | "developer" if not self.items:
                self.instructions += [text for text in [text_of(content)] if text.strip()]
            case "system" | "developer":
                self._say("developer", input_parts(content))
            case "user":
                self._say("user", input_parts(content))
            case "assistant":
                self._add_answer(message)
            case "tool" | "function":
                self._add_result(message)
            case _:
                raise refused(f"messages: there is no role {role!r}")

    def _say(self, role: str, parts: list[dict[str, Any]]) -> None:
        if parts:
            self._close_calls()
            self.items.append({"role": role, "content": parts})

    def _add_answer(self, message: dict[str, Any]) -> None:
        self._close_calls()
        items = kept_items(message)
        if items is None:
            text = text_of(message.get("content"))
            items = [{"role": "assistant", "content": text}] if text.strip() else []
            items += [_call(call) for call in object_list(message.get("tool_calls"))]
        for item in items:
            self.items.append(self._numbered(item) if item.get("type") == "function_call" else item)

    def _numbered(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a call with an id that OpenAI takes and no earlier call has: the same for the same history."""
        given = str(item.get("call_id"))
        sent = given if 0 < len(given) <= MAX_CALL_ID else f"call_{hashlib.sha256(given.encode()).hexdigest()[:32]}"
        while sent in self._sent_ids:
            sent = f"call_{hashlib.sha256(sent.encode()).hexdigest()[:32]}"
        self._sent_ids.add(sent)
        self._ids[given] = sent
        self._open.append(sent)
        name = _BAD_NAME.sub("_", str(item.get("name") or ""))[:64] or "invalid_name"
        return {**item, "call_id": sent, "name": name}

    def _add_result(self, message: dict[str, Any]) -> None:
        sent = self._ids.get(str(message.get("tool_call_id")))
        if sent is None or sent not in self._open:
            self._say("user", input_parts(message.get("content")))
            return
        self._open.remove(sent)
        content = message.get("content")
        output = input_parts(content) if as_list(content) else text_of(content)
        self.items.append({"type": "function_call_output", "call_id": sent, "output": output})

    def _close_calls(self) -> None:
        """Give calls that were never answered a result, without which OpenAI refuses the conversation."""
        self.items += [{"type": "function_call_output", "call_id": call, "output": _NO_RESULT} for call in self._open]
        self._open.clear()


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function: Any = call.get("function") or {}
    arguments = function.get("arguments")
    return {
        "type": "function_call",
        "call_id": str(call.get("id")),
        "name": function.get("name"),
        "arguments": arguments if isinstance(arguments, str) and arguments.strip() else "{}",
    }
