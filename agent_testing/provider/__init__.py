"""The scripted model provider."""

from .provider import ScriptedProvider
from .record import Recorded
from .replies import wire_reply
from .script import Reply, Script
from .server import Given, ProviderServer
from .sse_stream import PIECE, argument_pieces, arguments_text, failure_reply, text_pieces
from .steps import Call, Drop, Fail, Garbage, Hang, Raw, Say, Step, step_from_json, step_to_json
from .thread import ProviderThread
from .wire import LAST_CHUNK, Pause, WireReply, http_chunk, json_reply, stream_head, whole_reply

__all__ = [
    "LAST_CHUNK",
    "PIECE",
    "Call",
    "Drop",
    "Fail",
    "Garbage",
    "Given",
    "Hang",
    "Pause",
    "ProviderServer",
    "ProviderThread",
    "Raw",
    "Recorded",
    "Reply",
    "Say",
    "Script",
    "ScriptedProvider",
    "Step",
    "WireReply",
    "argument_pieces",
    "arguments_text",
    "failure_reply",
    "http_chunk",
    "json_reply",
    "step_from_json",
    "step_to_json",
    "stream_head",
    "text_pieces",
    "whole_reply",
    "wire_reply",
]
