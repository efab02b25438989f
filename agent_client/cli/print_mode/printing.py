"""What `agent -p` prints: the texts as they come, or JSON; and on stderr how the turn ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..output import Output, print_error
from .turn import BY_THE_HOST, Turn

if TYPE_CHECKING:
    from ... import ChatEvent


@dataclass(slots=True)
class TextPrinter:
    """Writes the texts of a turn as they come, with an empty line between two of them."""

    output: Output
    texts: dict[int, str] = field(default_factory=dict[int, str])
    last: int = -1

    def print(self, event: ChatEvent) -> None:
        """Write what the event adds."""
        from ... import TextDelta, TextReplaced

        if isinstance(event, TextDelta) and event.kind == "text":
            self._write(event.part, event.text)
        elif isinstance(event, TextReplaced) and event.kind == "text":
            before = self.texts.get(event.part, "")
            if event.text.startswith(before):
                self._write(event.part, event.text.removeprefix(before))
            elif not before.startswith(event.text):
                self._write(event.part, f"\n{event.text}")

    def finish(self) -> None:
        """End the last line."""
        if self.texts and not self.texts[self.last].endswith("\n"):
            self.output.text("\n")

    def _write(self, part: int, text: str) -> None:
        if self.texts and part != self.last:
            self.output.text("\n" if self.texts[self.last].endswith("\n") else "\n\n")
        self.texts[part] = self.texts.get(part, "") + text
        self.last = part
        self.output.text(text)


def event_json(event: ChatEvent) -> Any:
    """Return the event as JSON values."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(event)


def summary(turn: Turn) -> dict[str, Any]:
    """Return what `--json` prints."""
    from pydantic_core import to_jsonable_python

    reply = turn.reply
    return {
        "status": turn.status,
        "session_id": turn.session,
        "message_id": reply.message_id if reply else turn.message_id,
        "text": reply.text if reply else "",
        "finish_reason": reply.finish_reason if reply else None,
        "limit": "timeout" if turn.timed_out else reply.limit if reply else None,
        "error": reply.error if reply else None,
        "error_code": reply.error_code if reply else None,
        "usage": to_jsonable_python(reply.usage) if reply else None,
        "pending": to_jsonable_python(asdict(turn.waits_for)) if turn.waits_for else None,
    }


def explain_end(turn: Turn) -> None:
    match turn.status:
        case "waits" if turn.waits_for:
            what = "a question" if turn.waits_for.type == "question" else f"an approval of {turn.waits_for.tool}"
            how = "--answer TEXT" if turn.waits_for.type == "question" else "--once, --always or --reject"
            name = (turn.waits_for.type == "approval" and turn.waits_for.code) or turn.waits_for.id
            print_error(f"{what} waits for a person; `agent approve {name} {how}`")
        case "limit":
            limit = "--timeout" if turn.timed_out or not turn.reply else turn.reply.limit
            print_error(f"a limit ended the turn: {limit}; `agent -p ... -s {turn.session}` continues the session")
        case "failed" if turn.reply:
            why = turn.reply.error or "the turn failed"
            print_error(f"the host ended the turn: {why}" if turn.reply.limit == BY_THE_HOST else why)
        case "aborted":
            print_error("the turn was aborted")
        case _:
            pass
