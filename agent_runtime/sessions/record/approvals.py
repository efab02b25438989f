"""The id of an approval, which stands for all that is shown to the person who gives it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_common.protocol import is_object

APPROVAL_PART = "data-approval"
"""Type of a part that goes with an approval: its code, the reason, and the rules that `always` would add."""
APPROVAL_PREFIX = "approval_"


def approval_id(reply_id: str, call_id: str, tool: str, arguments: Any, shown: Mapping[str, Any]) -> str:
    """Return the id of an approval, made from the turn's reply, the call, and the data of the `data-approval` part.

    That data has a code which the session uses once, so no other approval has this id, not even one of the same call.
    An approval without a code was recorded by an earlier version, which named it by its call alone.
    """
    if "code" not in shown:
        return f"{APPROVAL_PREFIX}{call_id}"
    bound = json.dumps([reply_id, call_id, tool, arguments, shown], sort_keys=True)
    return f"{APPROVAL_PREFIX}{call_id}_{hashlib.sha256(bound.encode()).hexdigest()[:16]}"


def approvals_shown(parts: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the data that a reply shows with its approvals, by their ids."""
    found = (part for part in parts if part["type"] == APPROVAL_PART and "id" in part)
    return {part["id"]: part["data"] for part in found if is_object(part.get("data"))}
