"""Values that results of tasks promote: written in the transaction that records the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, to_json
from sqlalchemy import Connection

from agent_common.protocol import MAX_VALUE_BYTES, PromotionRule

from ..database import lock_shared
from ..errors import InvalidRequest, cut
from ..http import ALWAYS, Condition
from .changes import Writer
from .errors import BlackboardFull, VersionConflict
from .keys import check_key
from .writing import put_entry

MOST_PROMOTIONS = 100
"""Values that one result promotes. More would hold up the results of others."""
_LONGEST_KEY = 600
_IF_ABSENT = Condition(must_be_absent=True)


class PromotedValue(BaseModel):
    """What has become of a value that a result promotes."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    key: str
    outcome: Literal["created", "replaced", "kept", "refused"]
    """`created`: there was no such entry; `replaced`: it took the place of another value; `kept`: the rule was
    `if_absent`, and what was there stays; `refused`: it was not written."""
    version: int | None = Field(default=None, exclude_if=lambda version: version is None)
    """Of the entry that is there now."""
    reason: str | None = Field(default=None, exclude_if=lambda reason: reason is None)
    """Why it was refused."""


def promote_values(
    connection: Connection, writer: Writer, values: Mapping[str, Any], rule: PromotionRule
) -> list[PromotedValue]:
    """Write the values, each for itself: one that cannot be written holds up no other."""
    lock_shared(connection)
    condition = _IF_ABSENT if rule == "if_absent" else ALWAYS
    found = [_promote(connection, writer, key, values[key], condition) for key in list(values)[:MOST_PROMOTIONS]]
    if (left_out := len(values) - MOST_PROMOTIONS) > 0:
        reason = (
            f"a result promotes at most {MOST_PROMOTIONS} values; {left_out} are left out, of which this is the first"
        )
        found.append(refused(list(values)[MOST_PROMOTIONS], reason))
    return found


def _promote(connection: Connection, writer: Writer, key: str, value: Any, condition: Condition) -> PromotedValue:
    try:
        text = to_json(value, inf_nan_mode="null")
        if len(text) > MAX_VALUE_BYTES:
            return refused(key, f"the value has {len(text)} bytes as JSON; at most {MAX_VALUE_BYTES} are allowed")
        row, created = put_entry(connection, writer, check_key(key), text.decode(), condition=condition)
    except VersionConflict as conflict:
        return PromotedValue(key=key, outcome="kept", version=conflict.extra["version"])
    except (InvalidRequest, BlackboardFull, PydanticSerializationError) as error:
        return refused(key, str(error))
    return PromotedValue(key=key, outcome="created" if created else "replaced", version=row.version)


def refused(key: str, reason: str) -> PromotedValue:
    """Return that a value was not written."""
    return PromotedValue(key=cut(key, _LONGEST_KEY), outcome="refused", reason=reason)
