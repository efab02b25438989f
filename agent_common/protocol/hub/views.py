"""What a participant sees of a session: its log as messages for a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .envelope import Envelope
from .event_types import EV_FINISH, EV_HANDOFF, EV_TEXT

_LIKE_A_NAME = re.compile(r"^(?=\[[^\]\n]{1,100}\]:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ViewMessage:
    """One message for a model: what the participant itself said, or what others said meanwhile."""

    role: Literal["user", "assistant"]
    parts: tuple[str, ...]
    """Texts, one for each envelope."""

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class ViewPolicy:
    """How a log becomes messages: all of it or its end, with the names of speakers or without."""

    recent: int | None = None
    """Envelopes that are shown; the rest is one line with their number. None: all."""
    named: bool = False
    """Whether what others say begins with their name."""

    def __post_init__(self) -> None:
        if self.recent is not None and self.recent < 1:
            raise ValueError(f"recent: must be at least 1, and is {self.recent}")

    @property
    def name(self) -> str:
        """The policy's name in documents: `full_transcript`, `windowed_summary` and so on."""
        kind = "transcript" if self.recent is None else f"windowed_summary({self.recent})"
        return f"named_{kind}" if self.named else "full_transcript" if self.recent is None else kind

    def project(self, log: Sequence[Envelope], reader: str, names: Mapping[str, str]) -> list[ViewMessage]:
        """The messages that `reader` sees. `log` is a session's log, or its end, which must have one
        envelope more than the policy shows."""
        shown, left_out = self.select(log, reader)
        messages: list[tuple[Literal["user", "assistant"], list[str]]] = []
        if left_out:
            messages.append(("user", [left_out]))
        for envelope in shown:
            rendered = self._render(envelope, reader, names)
            role: Literal["user", "assistant"] = "assistant" if envelope.sender_id == reader else "user"
            if messages and messages[-1][0] == role:
                messages[-1][1].append(rendered)
            else:
                messages.append((role, [rendered]))
        return [ViewMessage(role, tuple(parts)) for role, parts in messages]

    def select(self, log: Sequence[Envelope], reader: str) -> tuple[list[Envelope], str]:
        """The envelopes that `reader` sees, and the line that stands for those that are left out; empty: none are."""
        shown = [one for one in log if one.is_visible_to(reader) and render(one)]
        cut = 0 if self.recent is None else max(len(shown) - self.recent, 0)
        left_out = f"[What was said before number {shown[cut].sequence} is left out.]" if cut else ""
        return shown[cut:], left_out

    def _render(self, envelope: Envelope, reader: str, names: Mapping[str, str]) -> str:
        rendered = render(envelope)
        if not rendered or not self.named or envelope.sender_id == reader:
            return rendered
        # A line of its own that looks like the beginning of what another has said is marked as a part of the text.
        own = _LIKE_A_NAME.sub("\\\\", rendered)
        return f"[{names.get(envelope.sender_id, envelope.sender_id)}]: {own}"


FULL_TRANSCRIPT = ViewPolicy()


def windowed_summary(recent: int) -> ViewPolicy:
    """The last envelopes, and one line for the rest."""
    return ViewPolicy(recent=recent)


def named_windowed_summary(recent: int) -> ViewPolicy:
    """The last envelopes with the names of their speakers, and one line for the rest."""
    return ViewPolicy(recent=recent, named=True)


def render(envelope: Envelope) -> str:
    """What an envelope says to a model; empty: nothing."""
    data = envelope.event_data
    if envelope.event_type == EV_TEXT:
        return envelope.text
    if envelope.event_type == EV_HANDOFF:
        handed = f"(hands over to {data.get('target') or data.get('tool')}{_because(data.get('reason'))})"
        return f"{envelope.text}\n{handed}" if envelope.text else handed
    if envelope.event_type == EV_FINISH:
        return str(data.get("summary") or envelope.text or "(finished)")
    return ""


def _because(reason: object) -> str:
    return f": {reason}" if reason else ""
