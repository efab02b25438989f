"""What each provider takes and gives, from its documentation and from reports of its refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FOREIGN_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google takes as the signature of a call that another model has made."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one provider differs."""

    name: str
    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    """Names of the limit of an answer that it takes."""
    stream_options: bool = True
    temperature: bool = True
    user_after_tool: bool = True
    """Whether a user's message may stand directly behind a tool's result."""
    call_ids: str = r".+"
    """Pattern of the ids that it takes."""
    id_style: Literal["plain", "nine", "numbered"] = "plain"
    """The ids that it gives: a text, nine letters and digits, or the tool's name with a number."""
    max_description: int | None = None
    """Characters of a tool's description."""
    tool_names: str = r"[A-Za-z0-9_-]{1,64}"
    schemas: Literal["any", "object", "plain"] = "any"
    """Schemas of tools that it takes: any, without alternatives at the top, without references and newer keywords."""
    reasoning: Literal["", "reasoning_content", "content", "details"] = ""
    """Where its reasoning is: nowhere, in a member, in the content, in `reasoning_details`."""
    signed_calls: bool = False
    """Whether its calls bear a signature; of other models' calls in the turn that is not over FOREIGN_SIGNATURE."""
    wants: Literal["", "turn", "always"] = ""
    """When what it gave has to come back: with calls of the turn that is not over, or with every answer."""
    missing: str = "what was given with message {at} is missing"
    """Its words for that."""
    listed: bool = False
    """Whether its errors are in a list."""


_OPENAI = Dialect(
    "openai",
    limits=("max_completion_tokens",),
    temperature=False,
    call_ids=r".{1,40}",
    max_description=1024,
    schemas="object",
)
DIALECTS = {
    one.name: one
    for one in (
        _OPENAI,
        Dialect(
            "gemini",
            call_ids=r".+",
            tool_names=r"[A-Za-z_][A-Za-z0-9_.-]{0,63}",
            schemas="plain",
            signed_calls=True,
            wants="turn",
            missing="Function call is missing a thought_signature in functionCall parts. This is required for tools to "
            "work correctly, and missing thought_signature may lead to degraded model performance (position {at}).",
            listed=True,
        ),
        Dialect(
            "deepseek",
            limits=("max_tokens",),
            reasoning="reasoning_content",
            wants="always",
            missing="The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        Dialect(
            "kimi",
            id_style="numbered",
            reasoning="reasoning_content",
            wants="always",
            missing="thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}",
        ),
        Dialect(
            "mistral",
            limits=("max_tokens",),
            stream_options=False,
            user_after_tool=False,
            call_ids=r"[A-Za-z0-9]{9}",
            id_style="nine",
            reasoning="content",
        ),
        Dialect(
            "openrouter",
            reasoning="details",
            wants="turn",
            missing="messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        ),
    )
}
"""By name: `openai` (GPT-5 by chat completions), `gemini`, `deepseek`, `kimi`, `mistral`, `openrouter`."""
