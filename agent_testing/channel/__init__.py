"""The mediation channel without the product: one connection to drive by hand, and a small agent and listener."""

from .agent import StubAgent, StubEntry
from .connection import ExpectationFailed, PeerConnection, accept_peers
from .frames import (
    Dialect,
    Frame,
    FrameTest,
    brief,
    is_ack,
    is_ctl,
    is_request,
    is_result,
    is_signal,
    now,
    request_frame,
    result_frame,
    signal_frame,
)
from .listener import StubListener, StubSession, StubWork

__all__ = [
    "Dialect",
    "ExpectationFailed",
    "Frame",
    "FrameTest",
    "PeerConnection",
    "StubAgent",
    "StubEntry",
    "StubListener",
    "StubSession",
    "StubWork",
    "accept_peers",
    "brief",
    "is_ack",
    "is_ctl",
    "is_request",
    "is_result",
    "is_signal",
    "now",
    "request_frame",
    "result_frame",
    "signal_frame",
]
