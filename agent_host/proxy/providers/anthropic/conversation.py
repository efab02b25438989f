"""Convert messages: the system prompt to the top, results directly behind their calls, no role twice in a row."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

from ....errors import ProviderFailed
from ...json_access import as_object, object_list, text_of
from .assistant import assistant_blocks
from .parts import user_blocks

_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NO_RESULT = "there is no result of this call"
_BEGINNING = "(the conversation begins with your answer)"


class Conversation:
    """The messages of a request, as Claude takes them. Raises ProviderFailed for parts that it does not take."""

    def __init__(self, messages: list[Any]) -> None:
        self.system: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}
        """The id of a call as it was given, and as it is sent."""
        self._sent_ids: set[str] = set()
        self._repeats: Counter[str] = Counter()
        """How often an id was given again, so that many calls with one id cost no search each."""
        self._open: dict[str, None] = {}
        """Calls of the latest assistant message that have no result yet, by the ids that are sent, in their order."""
        for message in object_list(messages):
            self._add(message)
        self._close_calls()
        if self.messages and self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", "content": [{"type": "text", "text": _BEGINNING}]})
        self._strip_end()

    def used_tools(self) -> list[dict[str, Any]]:
        """Return declarations of the tools that were called: Claude wants them even when none may be called."""
        names = dict.fromkeys(
            block["name"] for message in self.messages for block in message["content"] if block["type"] == "tool_use"
        )
        return [{"name": name, "input_schema": {"type": "object"}} for name in names]

    @property
    def lacks_thinking(self) -> bool:
        """Whether the turn that is not over has calls without the thinking that came before them, as those of another
        model have."""
        for message in reversed(self.messages):
            kinds = [block["type"] for block in message["content"]]
            if message["role"] == "assistant" and "tool_use" in kinds and "thinking" not in kinds[0]:
                return True
            if message["role"] == "user" and "tool_result" not in kinds:
                return False
        return False

    def add_instruction(self, text: str) -> None:
        """Add words of ours at the end."""
        self._append("user", user_blocks(text))

    def _add(self, message: dict[str, Any]) -> None:
        role = message.get("role")
        content = message.get("content")
        match role:
            case "system" | "developer" if not self.messages:
                self.system += [{"type": "text", "text": text} for text in [text_of(content)] if text.strip()]
            case "system" | "developer":
                self._append("user", user_blocks(content))
            case "user":
                self._append("user", user_blocks(content))
            case "assistant":
                blocks = assistant_blocks(message)
                self._append("assistant", [self._numbered(block) for block in blocks])
            case "tool" | "function":
                self._add_result(message)
            case _:
                error = ProviderFailed(f"messages: there is no role {role!r}", code="invalid_request")
                error.status = 400
                raise error

    def _append(self, role: str, blocks: list[dict[str, Any]]) -> None:
        """Add blocks to the last message if it has the same role, else in a new one."""
        if not blocks:
            return
        self._close_calls()
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        self.messages[-1]["content"] += blocks
        self._open |= dict.fromkeys(block["id"] for block in blocks if block["type"] == "tool_use")

    def _numbered(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a call with an id that Claude takes and no earlier call has: the same for the same history."""
        if block["type"] != "tool_use":
            return block
        given = block["id"]
        sent = given if _PLAIN_ID.fullmatch(given) else f"call_{hashlib.sha256(given.encode()).hexdigest()[:32]}"
        base = sent
        while sent in self._sent_ids:
            self._repeats[base] += 1
            sent = f"{base}_{self._repeats[base]}"
        self._sent_ids.add(sent)
        self._ids[given] = sent
        return {**block, "id": sent}

    def _add_result(self, message: dict[str, Any]) -> None:
        sent = self._ids.get(str(message.get("tool_call_id")))
        content = user_blocks(message.get("content"))
        if sent is None or sent not in self._open:
            self._append("user", content)
            return
        del self._open[sent]
        if self.messages[-1]["role"] != "user":
            self.messages.append({"role": "user", "content": []})
        results: list[dict[str, Any]] = self.messages[-1]["content"]
        results.append({"type": "tool_result", "tool_use_id": sent, **({"content": content} if content else {})})

    def _close_calls(self) -> None:
        """Give calls that were never answered a result, without which Claude refuses the conversation."""
        unanswered = self._open
        self._open = {}
        if not unanswered:
            return
        if self.messages[-1]["role"] != "user":
            self.messages.append({"role": "user", "content": []})
        self.messages[-1]["content"] += [
            {"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True} for call in unanswered
        ]

    def _strip_end(self) -> None:
        """Take blanks from the end of an answer that Claude is to continue."""
        last = as_object(self.messages[-1]) if self.messages else {}
        if last.get("role") == "assistant" and last["content"][-1]["type"] == "text":
            last["content"][-1]["text"] = last["content"][-1]["text"].rstrip()
