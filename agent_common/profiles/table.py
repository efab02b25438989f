"""Profiles of known models by base URL and name. The first entry that fits counts; each names its source.

A name is that of the provider, in lower case; a gateway puts the maker before it (`mistralai/mistral-large`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from ..protocol import Profile

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What Google takes as the signature of a call that another model has made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A profile, and the models that it is of."""

    profile: Profile
    source: str
    host: str = ""
    """Pattern of the base URL's host and path; empty: any."""
    model: str = ""
    """Pattern of the model's name; empty: any."""


ENTRIES = (
    Entry(
        Profile(
            output_limit="max_completion_tokens",
            call_ids="short",
            description_limit=1024,
            temperature=False,
            tool_schemas="object",
        ),
        "https://platform.openai.com/docs/guides/reasoning; https://github.com/anomalyco/opencode/issues/37964;"
        " https://github.com/langchain-ai/langchainjs/issues/9804",
        model=r"(?:^|/)(?:gpt-5|o[134](?:-|$))",
    ),
    Entry(
        Profile(output_limit="max_completion_tokens", call_ids="short", description_limit=1024, tool_schemas="object"),
        "https://platform.openai.com/docs/api-reference/chat/create (max_tokens is deprecated)",
        host=r"(?:^|\.)(?:api\.openai\.com|openai\.azure\.com)(?=[:/]|$)",
    ),
    Entry(
        Profile(call_ids="nine", user_after_tool=False, stream_options=False, reasoning="always"),
        "https://github.com/anomalyco/opencode/issues/1680; https://github.com/zed-industries/zed/issues/37021;"
        " https://github.com/vybestack/llxprt-code/issues/114",
        host=r"^api\.mistral\.ai(?=[:/]|$)",
    ),
    Entry(
        Profile(call_ids="nine", user_after_tool=False),
        "https://github.com/langchain-ai/langchain/issues/24668; https://github.com/jundot/omlx/issues/1997",
        model=r"(?:mistral|ministral|codestral|devstral|magistral|mixtral|pixtral)",
    ),
    Entry(
        Profile(reasoning="always", reasoning_required=True),
        "https://github.com/earendil-works/pi/issues/3636 (V4: in all messages); https://api-docs.deepseek.com",
        host=r"^api\.deepseek\.com(?=[:/]|$)",
        model=r"deepseek-v4",
    ),
    Entry(
        Profile(reasoning="always", reasoning_blank=" "),
        "https://github.com/MoonshotAI/kimi-cli/issues/2141",
        model=r"(?:kimi|moonshot)",
    ),
    Entry(
        Profile(reasoning="always", tool_schemas="plain", signature_blank=FOREIGN_SIGNATURE),
        "https://ai.google.dev/gemini-api/docs/thought-signatures (Gemini 3 refuses calls without a signature)",
        model=r"gemini-(?:[3-9]|[a-z-]{0,20}latest)",
    ),
    Entry(
        Profile(reasoning="always", tool_schemas="plain"),
        "https://ai.google.dev/gemini-api/docs/thought-signatures (signatures of calls go back as they came);"
        " https://github.com/theopenco/llmgateway/issues/1763",
        model=r"gemini",
    ),
    Entry(
        Profile(tool_choice_none=False, tools_with_calls=True, null_content=False),
        "https://github.com/boto/boto3/issues/4687; https://github.com/HKUDS/nanobot/pull/3758",
        host=r"bedrock",
    ),
    Entry(
        Profile(idle_seconds=600),
        "https://github.com/openclaw/openclaw/issues/119602 (a prompt read by a CPU takes minutes)",
        host=r"^(?:localhost|127\.0\.0\.1|\[::1\]):(?:11434|1234|8080)\b",
    ),
)


@lru_cache(maxsize=512)
def profile_of(base_url: str, model: str) -> Profile:
    """Return what the table says of a model at a base URL."""
    parts = urlsplit(base_url)
    host = f"{parts.netloc.rpartition('@')[2]}{parts.path}".lower()
    for entry in ENTRIES:
        if re.search(entry.host, host) and re.search(entry.model, model.lower()):
            return entry.profile
    return Profile()
