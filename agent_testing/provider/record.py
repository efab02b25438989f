"""The requests that the provider received, kept raw and parsed when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from agent_common.protocol import without_notes


@dataclass(frozen=True)
class Recorded:
    """One HTTP request as it came over the wire."""

    method: str
    path: str
    """The request target, with the query if there is one."""
    raw_headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    received_at: float
    """`time.monotonic()` when the last byte was received."""

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name; of a repeated one the last."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.raw_headers}

    @cached_property
    def json(self) -> Any:
        """The body. Raises ValueError when it is not JSON."""
        return json.loads(self.body)

    @property
    def fields(self) -> dict[str, Any]:
        """The body as a JSON object. Raises ValueError when it is not one."""
        body = self.json
        if not isinstance(body, dict):
            raise ValueError("the body must be a JSON object")
        return cast(dict[str, Any], body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of a chat completion as they were sent; empty for other requests."""
        return _objects(self.fields.get("messages"))

    @property
    def tool_names(self) -> list[str]:
        """Names of the offered tools, in OpenAI's shape or in Anthropic's."""
        return [str(tool.get("function", tool)["name"]) for tool in _objects(self.fields.get("tools"))]

    @property
    def last_user_text(self) -> str:
        """Text of the last user message, or of its text parts, without the runtime's notes below it."""
        for message in reversed(self.messages):
            if message.get("role") == "user" and (text := without_notes(text_of(message.get("content")))):
                return text
        return ""

    @property
    def texts(self) -> list[str]:
        """Text of every message except system messages, without the runtime's notes."""
        texts = [text_of(message.get("content")) for message in self.messages if message.get("role") != "system"]
        return [without_notes(text) for text in texts]

    def describe(self) -> dict[str, Any]:
        """Return the JSON form for `GET /_requests`. A body that is not JSON appears as text."""
        try:
            body = self.json
        except ValueError:
            body = self.body.decode("utf-8", "replace")
        return {"method": self.method, "path": self.path, "headers": self.headers, "body": body, "at": self.received_at}


def text_of(content: Any) -> str:
    """Return the text of a message's `content`, which is a string or a list of parts."""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in _objects(content))


def _objects(value: Any) -> list[dict[str, Any]]:
    items = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(dict[str, Any], item) for item in items if isinstance(item, dict)]
