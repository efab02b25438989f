"""What the model sees: the prompt, and a view over the recorded parts."""

from .lower import NOTICE, Call, Step, error_envelope
from .prompt import digest, system_prompt
from .view import View, definition, lower_tools

__all__ = [
    "NOTICE",
    "Call",
    "Step",
    "View",
    "definition",
    "digest",
    "error_envelope",
    "lower_tools",
    "system_prompt",
]
