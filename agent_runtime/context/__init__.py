"""What the model sees: the prompt, and a view over the recorded parts."""

from .lower import Call, Step, denied, error_envelope, steps_of, user_text
from .prompt import digest, system_prompt
from .view import View, definition, lower_tools

__all__ = [
    "Call",
    "Step",
    "View",
    "definition",
    "denied",
    "digest",
    "error_envelope",
    "lower_tools",
    "steps_of",
    "system_prompt",
    "user_text",
]
