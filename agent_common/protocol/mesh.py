"""What the host answers beside completions: its models (`GET /v1/models`), and what it finds (`POST /v1/search`)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from .base import Inbound, Peer


class Pricing(Peer):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """None: as `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """None: as `input`."""


Caching = Literal["none", "automatic", "key", "breakpoints"]
"""How a model's provider caches prompts: not that anybody knows; by itself; by itself, better with a `prompt_cache_key`
for each session; up to marks in the messages (`cache_control`)."""


class ModelCard(Peer):
    """One entry of `/v1/models`. Beyond `id`, a plain OpenAI endpoint gives nothing."""

    id: str
    context_limit: int | None = None
    max_output_tokens: int | None = None
    pricing: Pricing | None = None
    capabilities: list[str] = Field(default_factory=list)
    upstream: str | None = None
    """The provider's own name for it: the model behind an alias, which says how text becomes tokens. None: `id`."""
    caching: Caching = "none"
    """`automatic`, `key` and `breakpoints`: its provider caches prompts, and reports what it read from the cache."""

    @property
    def supports_chat(self) -> bool:
        """Whether it may be asked to chat; a list that does not say so leaves it open."""
        return not self.capabilities or "chat" in self.capabilities

    @field_validator("caching", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        """A way that is not known yet is used as none."""
        return value if value in get_args(Caching) else "none"


class ModelList(Peer):
    data: list[ModelCard]


class SearchRequest(Inbound):
    """Body of `POST /v1/search`."""

    query: str = Field(min_length=1, max_length=500)
    max_results: int = Field(default=8, ge=1, le=20)
    session: str = Field(min_length=1, max_length=100)
    """Searches of one session go to one search engine, and are counted together."""


class SearchHit(Peer):
    """A page that was found."""

    title: str
    url: str
    snippet: str


class SearchResults(Peer):
    results: list[SearchHit]
