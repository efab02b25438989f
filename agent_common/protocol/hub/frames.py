"""What goes over a link, and its one codec: a frame is one JSON object with its `kind`.

A client says hello, and asks with requests, each with an id that its response or error carries. It sends envelopes,
which are accepted or refused, receives notifies, and answers each with a receipt. Ping is answered with pong.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..base import Inbound
from ..problem import validation_faults
from .envelope import MAX_ENVELOPE, MAX_NUMBER, Envelope
from .errors import NetworkError, ProtocolError, error_from_code

MAX_FRAME = MAX_ENVELOPE + (64 << 10)
"""Most bytes of a frame. A page of a log is cut so that it fits."""
VERSION = 1
"""The version of these frames."""
TurnOutcome = Literal["replied", "silent", "failed"]
"""How a turn over an envelope ended: with a reply, without one, or not at all."""


class HelloFrame(Inbound):
    """The first frame of a client."""

    kind: Literal["hello"] = "hello"
    version: int = VERSION
    """Version of the frames."""


class WelcomeFrame(Inbound):
    """The hub's answer to hello."""

    kind: Literal["welcome"] = "welcome"
    endpoint_id: str
    """Id of the link at the hub."""
    hub_time: int
    """Epoch milliseconds at the hub."""


class PingFrame(Inbound):
    """Asks whether the other end is there."""

    kind: Literal["ping"] = "ping"


class PongFrame(Inbound):
    """The answer to ping."""

    kind: Literal["pong"] = "pong"


class SendFrame(Inbound):
    """An envelope for the hub."""

    kind: Literal["send"] = "send"
    request_id: str
    """Comes back in accept or error."""
    envelope: Envelope


class AcceptFrame(Inbound):
    """The envelope is in the log."""

    kind: Literal["accept"] = "accept"
    request_id: str
    """That of send."""
    envelope_id: str
    """Id that the hub has stamped; that of the first one if the key was known."""


class NotifyFrame(Inbound):
    """An envelope for an agent, or for a subscription."""

    kind: Literal["notify"] = "notify"
    envelope: Envelope
    recipient_id: str
    """The agent that it is for."""
    attempt: int = 1
    """1 unless it was sent before and not acknowledged, as far as the hub can tell."""
    subscription_id: str = ""
    """Set if it comes of a subscription; then no receipt is due."""


class ReceiptFrame(Inbound):
    """An agent's answer to notify. A nack brings it again after a pause."""

    kind: Literal["receipt"] = "receipt"
    envelope_id: str
    session_id: str
    recipient_id: str
    """The agent that answers."""
    status: Literal["ack", "nack"] = "ack"
    outcome: TurnOutcome | None = None
    """How the turn over it ended, if it was one."""
    reason: str = Field(default="", max_length=500)
    """Why it was not handled."""


ALL_SESSIONS = "*"
"""In place of a session's id, for operators: all that is said on the hub from now on."""


class SubscribeFrame(Inbound):
    """Asks for what is said in a session, besides what is delivered: from the log, then live."""

    kind: Literal["subscribe"] = "subscribe"
    subscription_id: str
    session_id: str
    agent_id: str = ""
    """The participant in whose name; empty: the link's only one, or on an operator's link without agents nobody's."""
    after: int = Field(default=0, ge=0, le=MAX_NUMBER)
    """Begin after this sequence."""


class UnsubscribeFrame(Inbound):
    """Ends a subscription."""

    kind: Literal["unsubscribe"] = "unsubscribe"
    subscription_id: str


class RequestFrame(Inbound):
    """Asks the hub for something: `op` and its parameters."""

    kind: Literal["request"] = "request"
    request_id: str
    """Comes back in response or error."""
    op: str
    params: dict[str, Any] = Field(default_factory=dict)


class ResponseFrame(Inbound):
    """What a request asked for."""

    kind: Literal["response"] = "response"
    request_id: str
    result: Any = None


class ErrorFrame(Inbound):
    """A refusal of a send or request; or, without a request, of a frame, or that an envelope is given up."""

    kind: Literal["error"] = "error"
    code: str
    message: str
    request_id: str = ""
    """That of the frame which is refused; empty: it had none."""
    envelope_id: str = ""
    """With the code `dead_letter`: the nacked envelope that does not come again."""
    retry_after: float | None = None
    """Seconds after which another attempt may succeed."""

    def to_error(self) -> NetworkError:
        """The error that the caller gets."""
        return error_from_code(self.code, self.message, self.retry_after)


DEAD_LETTER = "dead_letter"
"""The code of an error frame for an envelope that was nacked too often."""
Frame = (
    HelloFrame | WelcomeFrame | PingFrame | PongFrame | SendFrame | AcceptFrame | NotifyFrame | ReceiptFrame
    | SubscribeFrame | UnsubscribeFrame | RequestFrame | ResponseFrame | ErrorFrame
)  # fmt: skip


@cache
def _adapter() -> TypeAdapter[Frame]:
    return TypeAdapter(Annotated[Frame, Field(discriminator="kind")])


def encode_frame(frame: Frame) -> bytes:
    """The frame as JSON."""
    return frame.model_dump_json().encode()


def decode_frame(data: bytes | str) -> Frame:
    """Read a frame. Raises ProtocolError, which names the fields that are wrong."""
    if len(data) > MAX_FRAME:
        raise ProtocolError(f"a frame may have {MAX_FRAME} bytes, and this one has {len(data)}")
    try:
        return _adapter().validate_json(data)
    except ValidationError as error:
        raise _not_a_frame(error) from error


def frame_of(value: Any) -> Frame:
    """The frame that a JSON value is, for ends that parse the text themselves. Raises as `decode_frame`."""
    try:
        return _adapter().validate_python(value)
    except ValidationError as error:
        raise _not_a_frame(error) from error


def _not_a_frame(error: ValidationError) -> ProtocolError:
    faults = "; ".join(f"{field}: {message}" for field, message in validation_faults(error)[:5])
    return ProtocolError(f"not a frame: {faults}")


def error_frame(error: NetworkError, request_id: str = "") -> ErrorFrame:
    """The frame that carries an error."""
    return ErrorFrame(code=error.code, message=error.message, request_id=request_id, retry_after=error.retry_after)
