"""What the model sees of a session: a view over the log that only ever grows at its end.

Each message is serialised once and kept as bytes, so that a turn's cost does not grow with the conversation beyond
the bytes that the model itself must receive, and every request is a byte-wise extension of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import to_json

from ..ports import ToolSpec
from ..sessions import Message
from .lower import Step, lower_step, lower_user, steps_of


class View:
    """The messages of one session, serialised."""

    def __init__(self, prompt: str) -> None:
        self._messages: list[bytes] = [to_json({"role": "system", "content": prompt})]
        self.size = len(self._messages[0])
        """Bytes of all messages."""

    @classmethod
    def of(cls, prompt: str, history: Iterable[Message]) -> View:
        """The view of a session that is read back from the log."""
        view = cls(prompt)
        for message in history:
            if not message.shown:
                continue
            if message.role == "user":
                if not message.steered:  # it stands in the reply that it joined
                    view.add_user(message.parts)
            else:
                for step in steps_of(message.parts):
                    view.add_step(step)
        return view

    @property
    def messages(self) -> Sequence[bytes]:
        return self._messages

    def add_user(self, parts: Sequence[dict[str, Any]]) -> None:
        self._add([lower_user(parts)])

    def add_step(self, step: Step) -> None:
        self._add(lower_step(step))

    def _add(self, messages: list[bytes]) -> None:
        self._messages += messages
        self.size += sum(map(len, messages))


def lower_tools(specs: Sequence[ToolSpec]) -> bytes | None:
    """Tool definitions in OpenAI's function format, in the order given."""
    return to_json([definition(spec) for spec in specs]) if specs else None


def definition(spec: ToolSpec) -> dict[str, Any]:
    """One tool in OpenAI's function format."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
