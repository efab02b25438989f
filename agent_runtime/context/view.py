"""What the model sees of a session: a view over the log that only ever grows at its end.

Each message is serialised once and kept as bytes, so that a turn's cost does not grow with the conversation beyond
the bytes that the model itself must receive, and every request is a byte-wise extension of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from ..agents import DEFAULT
from ..ports import Note, ToolSpec
from ..sessions import Marker, Message, Shortened
from .notes import notes_of, sent_note
from .provider_messages import Step, serialize_step, serialize_summary, serialize_user_message, steps_of
from .sanitize import escape_json_texts, escape_result_json

AGENT_SWITCH_TEXT = "from here on you act as agent {now}; what was said before was said by agent {was}"
_ASSISTANT_TEXT_PREFIX = b'{"role":"assistant","content":"'


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A point where a view could be cut: before a user message, or before a step of its turn."""

    index: int
    """Of the first message there."""
    message_id: str
    """The user message of the turn."""
    step: int = 0
    """0: the user message itself; else the step, counted from 1."""
    spoken_to: str = DEFAULT
    """The agent of the message before that one."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a tool gave."""

    message_id: str
    """The user message of its turn."""
    call_id: str
    text: str


class View:
    """The messages of one session, serialised."""

    def __init__(self, prompt: str, agent: str = DEFAULT, marker: Marker | None = None) -> None:
        """With a marker only what is added from its tail on is shown, behind the summary of what was before."""
        self._marker = marker
        self._messages: list[bytes] = [_system(prompt)]
        if marker is not None and marker.summary:
            self._messages.append(serialize_summary(marker.summary))
        self._agent = (marker.spoken_to if marker is not None else "") or agent
        """Who was spoken to last."""
        self._turn, self._step = "", 0
        self._shortened = {(one.message_id, one.call_id): one.kept for one in marker.shortened} if marker else {}
        self.cut_points: list[CutPoint] = []
        """Where it can be cut, in order."""
        self.size = sum(map(len, self._messages))
        """Bytes of all messages."""

    @classmethod
    def from_history(
        cls, prompt: str, history: Iterable[Message], agent: str = DEFAULT, marker: Marker | None = None
    ) -> View:
        """The view of a session that is read back from the log; `agent` is the session's own. With a marker the history
        is that of its tail and of what came since."""
        view = cls(prompt, agent, marker)
        for message in history:
            if not message.shown:
                continue
            if message.role == "user":
                if not message.steered:  # it stands in the reply that it joined
                    notes = (sent_note(message.sent_at), *notes_of(message.metadata))
                    view.add_user(message.parts, message.metadata.get("agent", agent), notes, message.id)
            else:
                view.add_reply(message.parts)
        return view

    @property
    def messages(self) -> Sequence[bytes]:
        return self._messages

    @property
    def last_answer(self) -> str | None:
        """What the model has said last; none while it has said nothing."""
        last = next(
            (message for message in reversed(self._messages) if message.startswith(_ASSISTANT_TEXT_PREFIX)), None
        )
        return from_json(last)["content"] if last is not None else None

    @property
    def spoken_to(self) -> str:
        """The agent that the last message was for."""
        return self._agent

    @property
    def shortened(self) -> Sequence[Shortened]:
        """What the latest compaction shows in part only."""
        return self._marker.shortened if self._marker is not None else ()

    def results(self, start: CutPoint) -> Iterator[CallResult]:
        """The results of tools from there on, as they are shown."""
        places = [place for place in self.cut_points if place.index >= start.index]
        for place, end in zip(places, [*(place.index for place in places[1:]), len(self._messages)], strict=True):
            for message in map(from_json, self._messages[place.index : end]):
                if message["role"] == "tool":
                    yield CallResult(place.message_id, message["tool_call_id"], message["content"])

    def marker_without_cut(self, shortened: tuple[Shortened, ...]) -> Marker | None:
        """A marker behind which all is shown that is shown now, but for these results; none where there is no message
        to begin with."""
        first = self.cut_points[0] if self.cut_points else None
        if first is None or first.step:
            return None
        known = self._marker or Marker("", 0, auto=True)
        if known.tail_start_id != first.message_id:
            known = replace(known, tail_start_id=first.message_id, tail_start_step=0, spoken_to=first.spoken_to)
        return replace(known, auto=True, shortened=shortened)

    @property
    def empty(self) -> bool:
        """Nothing was said yet."""
        return len(self._messages) == 1

    def begin_with(self, prompt: str) -> None:
        """Another agent speaks: its requests begin with another prompt, and only then is anything rewritten."""
        first = _system(prompt)
        self.size += len(first) - len(self._messages[0])
        self._messages[0] = first

    def add_user(
        self,
        parts: Sequence[dict[str, Any]],
        agent: str | None = None,
        notes: Sequence[Note] = (),
        message_id: str = "",
    ) -> None:
        """A message to an agent, above what the runtime has noted; when that is another agent than before, it says
        so."""
        self.cut_points.append(CutPoint(len(self._messages), message_id, 0, self._agent))
        was, self._agent = self._agent, agent or self._agent
        self._turn, self._step = message_id, 0
        if was != self._agent:
            notes = (*notes, Note("agent", AGENT_SWITCH_TEXT.format(was=was, now=self._agent)))
        self._add([serialize_user_message(parts, notes)])

    def add_reply(self, parts: Sequence[dict[str, Any]]) -> None:
        """All steps of a recorded reply."""
        for step in steps_of(parts):
            self.add_step(step)

    def add_step(self, step: Step) -> None:
        """The next step of the turn of the last user message. One that was left out by a compaction is only counted."""
        messages = serialize_step(step, self._kept_characters)
        if not messages:
            return
        self._step += 1
        if self._marker is None or not self._marker.omits_step(self._turn, self._step):
            self.cut_points.append(CutPoint(len(self._messages), self._turn, self._step, self._agent))
            self._add(messages)

    def replace_with(self, other: View) -> None:
        """Takes over what the other one shows: whoever holds this view sees the compacted conversation."""
        for name in ("_marker", "_messages", "_agent", "_turn", "_step", "_shortened", "cut_points", "size"):
            setattr(self, name, getattr(other, name))

    def _kept_characters(self, call_id: str) -> int | None:
        """Characters of a call's result that are shown; none: all."""
        return self._shortened.get((self._turn, call_id))

    def _add(self, messages: list[bytes]) -> None:
        self._messages += messages
        self.size += sum(map(len, messages))


def _system(prompt: str) -> bytes:
    return to_json({"role": "system", "content": prompt})


def serialize_tools(specs: Sequence[ToolSpec]) -> bytes | None:
    """Tool definitions in OpenAI's function format, in the order given."""
    if not specs:
        return None
    key = tuple(map(id, specs))
    known = _serialized_tools.get(key)
    if known is None:
        if len(_serialized_tools) >= _MAX_SERIALIZED:
            _serialized_tools.clear()
        known = _serialized_tools[key] = (tuple(specs), _visible([tool_definition(spec) for spec in specs]))
    return known[1]


_serialized_tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes]] = {}
"""Turn after turn has the same tools. The specs are held, so that their ids mean them and no others."""
_MAX_SERIALIZED = 64


def _visible(definitions: list[dict[str, Any]]) -> bytes:
    """Descriptions come from servers and skills as well."""
    lowered = to_json(definitions)
    text = lowered.decode()
    return lowered if escape_result_json(text) == text else to_json(escape_json_texts(definitions))


def tool_definition(spec: ToolSpec) -> dict[str, Any]:
    """One tool in OpenAI's function format."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
