"""The scripted model provider."""

from .provider import ScriptedProvider
from .record import Recorded
from .script import Reply, Script
from .server import ProviderServer
from .steps import Call, Drop, Fail, Garbage, Hang, Raw, Say, Step, step_from_json, step_to_json

__all__ = [
    "Call",
    "Drop",
    "Fail",
    "Garbage",
    "Hang",
    "ProviderServer",
    "Raw",
    "Recorded",
    "Reply",
    "Say",
    "Script",
    "ScriptedProvider",
    "Step",
    "step_from_json",
    "step_to_json",
]
