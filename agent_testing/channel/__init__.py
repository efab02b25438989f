"""The mediation channel without the product: one connection to drive by hand, and a small agent and listener."""

from .agent import StubAgent, StubEntry
from .connection import PeerConnection, accept_peers
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
from .received_frames import ExpectationFailed, ReceivedFrames

__all__ = [
    "Dialect",
    "ExpectationFailed",
    "Frame",
    "FrameTest",
    "PeerConnection",
    "ReceivedFrames",
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
