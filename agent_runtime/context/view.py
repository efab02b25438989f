"""The view of a session that the model sees: built from the log, and only ever extended at its end.

Each message is serialized once and kept as bytes. So a turn's cost grows with the conversation only by the bytes that
the model must receive, and every request extends the bytes of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  messages of our own making

from agent_common.line_text import first_visible

from ..agents import DEFAULT
from ..ports import Note, ProviderFields, ToolSpec
from ..sessions import Marker, Message, Shortened, skill_names
from .loaded_skills import loaded_skills
from .notes import notes_of, sent_note
from .provider_messages import Step, fields_of, serialize_step, serialize_summary, serialize_user_message, steps_of
from .sanitize import escape_json_texts, escape_result_json

AGENT_SWITCH_TEXT = "from here on you act as agent {now}; what was said before was said by agent {was}"
_ASSISTANT_TEXT_PREFIX = b'{"role":"assistant","content":"'


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A point at which a view can be cut: before a user message, or before a step of its turn."""

    index: int
    """Index of the first message after it."""
    message_id: str
    """The user message of the turn."""
    step: int = 0
    """0: the user message itself; otherwise the step, counted from 1."""
    spoken_to: str = DEFAULT
    """The agent that the message before it was addressed to."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a tool call."""

    message_id: str
    """The user message of its turn."""
    call_id: str
    tool: str
    text: str


class View:
    """The messages of one session, serialized."""

    def __init__(self, prompt: str, agent: str = DEFAULT, marker: Marker | None = None) -> None:
        """Create a view without messages. With a marker it shows the marker's summary, and of the history only the
        tail."""
        self._marker = marker
        self._messages: list[bytes] = [_system(prompt)]
        if marker is not None and marker.summary:
            self._messages.append(serialize_summary(marker.summary, marker.skills))
        self._agent = (marker.spoken_to if marker is not None else "") or agent
        """The agent that was addressed last."""
        self._turn = ""
        self._step = 0
        self._shortened = {(one.message_id, one.call_id): one.kept for one in marker.shortened} if marker else {}
        self.fields: dict[int, ProviderFields] = {}
        """What providers gave with messages, by their index."""
        self.cut_points: list[CutPoint] = []
        """The points at which it can be cut, in order."""
        self.size = sum(map(len, self._messages))
        """Bytes of all messages."""

    @classmethod
    def from_history(
        cls, prompt: str, history: Iterable[Message], agent: str = DEFAULT, marker: Marker | None = None
    ) -> View:
        """Build the view of a session from the log. `agent` is the session's own; with a marker, `history` begins at
        its tail."""
        view = cls(prompt, agent, marker)
        for message in history:
            if not message.shown:
                continue
            if message.role == "user":
                if not message.steered:  # it is a part of the reply that it joined
                    notes = (sent_note(message.sent_at), *notes_of(message.metadata))
                    view.add_user(message.parts, message.metadata.get("agent", agent), notes, message.id)
            else:
                view.add_reply(message.parts)
        return view

    @property
    def messages(self) -> Sequence[bytes]:
        return self._messages

    @property
    def turn_start(self) -> int:
        """Index of the message that began the current turn."""
        return next((point.index for point in reversed(self.cut_points) if point.step == 0), 0)

    @property
    def last_answer(self) -> str | None:
        """The model's last text; None if there is none."""
        last = next(
            (message for message in reversed(self._messages) if message.startswith(_ASSISTANT_TEXT_PREFIX)), None
        )
        return from_json(last)["content"] if last is not None else None

    @property
    def spoken_to(self) -> str:
        """The agent that the last message was addressed to."""
        return self._agent

    @property
    def shortened(self) -> Sequence[Shortened]:
        """The results that the latest compaction has shortened."""
        return self._marker.shortened if self._marker is not None else ()

    def results(self, start: CutPoint) -> Iterator[CallResult]:
        """Yield the tool results from that point on, as they are shown."""
        points = [point for point in self.cut_points if point.index >= start.index]
        for point, end in zip(points, [*(point.index for point in points[1:]), len(self._messages)], strict=True):
            tools: dict[str, str] = {}
            for message in map(from_json, self._messages[point.index : end]):
                if message["role"] == "tool":
                    call = message["tool_call_id"]
                    yield CallResult(point.message_id, call, tools[call], message["content"])
                else:
                    tools = {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}

    def skills_lost(self, end: int) -> tuple[str, ...]:
        """Return the skill packages whose instructions are not shown any more if the messages before `end` are left
        out."""
        kept = set(loaded_skills(self._messages[end:]))
        before = self._marker.skills if self._marker is not None else ()
        lost = [name for name in (*before, *loaded_skills(self._messages[:end])) if name not in kept]
        return skill_names(list(dict.fromkeys(reversed(lost)))[::-1])

    def marker_without_cut(self, shortened: tuple[Shortened, ...]) -> Marker | None:
        """Return a marker that keeps the current view except for these shortened results; None if the view does not
        begin with a user message."""
        first = self.cut_points[0] if self.cut_points else None
        if first is None or first.step:
            return None
        known = self._marker or Marker("", 0, auto=True)
        if known.tail_start_id != first.message_id:
            known = replace(known, tail_start_id=first.message_id, tail_start_step=0, spoken_to=first.spoken_to)
        return replace(known, auto=True, shortened=shortened)

    @property
    def empty(self) -> bool:
        """Whether there are no messages yet."""
        return len(self._messages) == 1

    def begin_with(self, prompt: str) -> None:
        """Set the system prompt, which changes only if another agent answers than before."""
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
        """Add a user message with its notes. If it is for another agent than the one before, a note says so."""
        self.cut_points.append(CutPoint(len(self._messages), message_id, 0, self._agent))
        was = self._agent
        self._agent = agent or self._agent
        self._turn = message_id
        self._step = 0
        if was != self._agent:
            notes = (*notes, Note("agent", AGENT_SWITCH_TEXT.format(was=was, now=self._agent)))
        self._add([serialize_user_message(parts, notes)])

    def add_reply(self, parts: Sequence[dict[str, Any]]) -> None:
        """Add all steps of a recorded reply."""
        for step in steps_of(parts):
            self.add_step(step)

    def add_step(self, step: Step) -> None:
        """Add the next step of the last user message's turn. One that a compaction has left out is only counted."""
        messages = serialize_step(step, self._kept_characters)
        if not messages:
            return
        self._step += 1
        if self._marker is None or not self._marker.omits_step(self._turn, self._step):
            self.cut_points.append(CutPoint(len(self._messages), self._turn, self._step, self._agent))
            if (first_visible(step.text) is not None or step.calls) and (fields := fields_of(step)) is not None:
                self.fields[len(self._messages)] = fields
            self._add(messages)

    def replace_with(self, other: View) -> None:
        """Take over the content of another view, so that all holders of this one see the compacted conversation."""
        for name in ("_marker", "_messages", "_agent", "_turn", "_step", "_shortened", "fields", "cut_points", "size"):
            setattr(self, name, getattr(other, name))

    def _kept_characters(self, call_id: str) -> int | None:
        """Return the characters of a call's result to show; None: all."""
        return self._shortened.get((self._turn, call_id))

    def _add(self, messages: list[bytes]) -> None:
        self._messages += messages
        self.size += sum(map(len, messages))


def _system(prompt: str) -> bytes:
    return to_json({"role": "system", "content": prompt})


def serialize_tools(specs: Sequence[ToolSpec]) -> bytes | None:
    """Return the tool definitions in OpenAI's function format, in the given order. None if there are none."""
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
"""Cache for lists of tools, which rarely change. It holds the specs, so that their ids stay valid."""
_MAX_SERIALIZED = 64


def _visible(definitions: list[dict[str, Any]]) -> bytes:
    """Return the definitions as JSON with invisible characters escaped: descriptions come from servers and skills
    too."""
    lowered = to_json(definitions)
    text = lowered.decode()
    return lowered if escape_result_json(text) == text else to_json(escape_json_texts(definitions))


def tool_definition(spec: ToolSpec) -> dict[str, Any]:
    """Return one tool in OpenAI's function format."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}
