"""What a provider gave with a step and may want to see again: kept with the parts, and read back from them.

The AI SDK has a place for it, `providerMetadata` of texts and reasoning and `callProviderMetadata` of calls. There it
stands under one key, with the model that made it: no other model is ever sent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.completions import MAX_KEPT_BYTES, ToolCall, bounded
from agent_common.protocol import is_object

from ..ports import Completion

KEPT = "kept"
"""The key under which it stands in the metadata of a part."""
Metadata = dict[str, Any]


def call_metadata(completion: Completion, call: ToolCall, call_id: str) -> Metadata:
    """Return what is kept with a call; `call_id` is the id under which it is recorded. Empty if there is nothing."""
    fields = bounded(call.fields)
    renamed = {"id": call.id} if not call_id.startswith(call.id) else {}
    found = {**renamed, **({"call": fields} if fields else {})}
    return {"model": completion.maker, **found} if found else {}


def message_metadata(completion: Completion, used: Metadata) -> Metadata:
    """Return what is kept of the message as a whole, beside what its part keeps already (`used`)."""
    fields = bounded(completion.fields, MAX_KEPT_BYTES - len(str(used)))
    member = {"reasoning": completion.reasoning_member} if completion.reasoning_member else {}
    found = {**member, **({"message": fields} if fields else {})}
    return {"model": completion.maker, **found} if found else {}


def as_provider_metadata(kept: Metadata) -> dict[str, Any] | None:
    """Return the metadata of a part."""
    return {KEPT: kept} if kept else None


def kept_in(part: Mapping[str, Any]) -> Metadata:
    """Return what a recorded part keeps. Parts may come from an import, so nothing of them is believed."""
    metadata = part.get("providerMetadata") or part.get("callProviderMetadata")
    kept = metadata.get(KEPT) if is_object(metadata) else None
    return kept if is_object(kept) and isinstance(kept.get("model"), str) else {}
