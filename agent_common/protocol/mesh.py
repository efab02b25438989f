"""The host's answers besides completions: its models (`GET /v1/models`) and web search (`POST /v1/search`)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from .base import Inbound, Peer
from .profile import Profile

SESSION_HEADER = "x-agent-session"
CALLER_HEADER = "x-agent-caller-session"
"""Headers of a model call, percent-encoded: its session, and of a subagent the session that called it."""
SUBAGENT_HEADER = "x-agent-subagent"
USER_HEADER = "x-agent-user"
"""The subagent's name, and the user of the session."""


class Pricing(Peer):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """Null means the price of `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """Null means the price of `input`."""


Caching = Literal["none", "automatic", "key", "breakpoints"]
"""How a model's provider caches prompts. `none`: not, or unknown; `automatic`: by itself; `key`: by itself, and better
with a `prompt_cache_key` for each session; `breakpoints`: up to `cache_control` marks in the messages."""


class ModelCard(Peer):
    """One entry of `/v1/models`. A plain OpenAI endpoint returns only `id`."""

    id: str
    context_limit: int | None = None
    max_output_tokens: int | None = None
    pricing: Pricing | None = None
    capabilities: list[str] = Field(default_factory=list)
    upstream: str | None = None
    """The provider's own name of the model, which determines its tokenizer; null if it is `id`."""
    owned_by: str | None = None
    """Beside `upstream` the mesh's name for the provider that answers."""
    profile: Profile | None = None
    """Ways in which the model differs from others; null if the list does not say."""
    caching: Caching = "none"
    """Except for `none`, the provider caches prompts and reports the tokens read from the cache."""

    @property
    def supports_chat(self) -> bool:
        """Whether the model can chat. True if the list of models does not say."""
        return not self.capabilities or "chat" in self.capabilities

    @field_validator("caching", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        """Treat an unknown way of caching as `none`."""
        return value if value in get_args(Caching) else "none"


class SearchRequest(Inbound):
    """Body of `POST /v1/search`."""

    query: str = Field(min_length=1, max_length=500)
    max_results: int = Field(default=8, ge=1, le=20)
    session: str = Field(min_length=1, max_length=100)
    """Searches of one session use the same search engine and are counted together."""


class SearchHit(Peer):
    """A web page that was found."""

    title: str
    url: str
    snippet: str


class SearchResults(Peer):
    results: list[SearchHit]
