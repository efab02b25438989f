"""What one model takes and gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Peer


class Profile(Peer):
    """Ways in which a model differs. Null: as most models."""

    output_limit: Literal["max_tokens", "max_completion_tokens", "none"] | None = None
    """The name of the limit of an answer's tokens; `none`: it takes none. Null means `max_tokens`."""
    stream_options: bool | None = None
    """Whether it takes `stream_options`; otherwise usage is estimated."""
    tool_choice: bool | None = None
    """Whether it takes `tool_choice`; otherwise it chooses by itself, and calls are refused by the agent where it must
    not call."""
    tool_choice_none: bool | None = None
    """Whether it takes `tool_choice: none`; otherwise `auto` is sent, and calls are refused by the agent."""
    temperature: bool | None = None
    """Whether it takes a temperature."""
    effort_with_tools: Literal["none"] | None = None
    """The `reasoning_effort` that it wants beside tools, in place of its own default. Null: none need be named."""
    prompt_cache_key: bool | None = None
    """Whether it takes `prompt_cache_key`."""
    user_after_tool: bool | None = None
    """Whether a user's message may follow a tool's result; otherwise a short one of the assistant stands between."""
    two_users: bool | None = None
    """Whether two messages of a user may follow each other; otherwise they are joined."""
    system_role: bool | None = None
    """Whether it takes messages of the system; otherwise they are joined to those of the user."""
    several_calls: bool | None = None
    """Whether a message may have several calls; otherwise each has a message, with its result behind it."""
    null_content: bool | None = None
    """Whether the content beside calls may be null; otherwise it is an empty text."""
    call_ids: Literal["any", "short", "nine"] | None = None
    """Ids of calls that it takes. `short`: at most 40 letters, digits, `_` and `-`; `nine`: nine letters and digits. An
    id that comes again in a request is numbered for all models."""
    tools_with_calls: bool | None = None
    """Whether tools must be declared as long as the history has calls."""
    description_limit: int | None = Field(default=None, gt=0)
    """Characters of a tool's description; a longer one is cut."""
    tool_schemas: Literal["any", "object", "plain", "filled"] | None = None
    """Schemas of tools that it takes. `object`: no alternatives at the top; `plain`: no references, and no keywords but
    OpenAPI's; `filled`: no objects without members either. Others are converted. Null means `any`."""
    argument_names: Literal["any", "plain"] | None = None
    """Names of a tool's arguments that it takes. `plain`: at most 64 letters, digits, `_`, `-` and `.`; an argument
    with another name is described in words. Null means `any`."""
    reasoning: Literal["always", "turn", "never"] | None = None
    """When its own reasoning is sent back: with each message, within the turn, or never. Null means `always`."""
    reasoning_required: bool | None = None
    """Whether each message of the assistant must have `reasoning_content`, those without any an empty one."""
    reasoning_blank: str | None = Field(default=None, max_length=10)
    """What stands for no reasoning where some is required. Null means an empty text."""
    kept_fields: bool | Literal["turn"] | None = None
    """Whether it takes back what it gave beside texts, reasoning and calls, such as signatures; `turn`: that of the
    running turn only."""
    signature_blank: str | None = Field(default=None, max_length=100)
    """What stands for Google's signature of calls that another model has made. Null: nothing."""
    idle_seconds: float | None = Field(default=None, gt=0)
    """Seconds without a byte in the middle of an answer before it is given up, if the settings say less."""

    def updated(self, other: Profile | None) -> Profile:
        """Return this profile with what another one says."""
        return self if other is None else self.model_copy(update=other.stated())

    def stated(self) -> dict[str, Any]:
        """Return the members that say something."""
        return self.model_dump(exclude_none=True)
