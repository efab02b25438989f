"""The text of a JSON value as a file has it."""

from __future__ import annotations

import json
from typing import Any


def json_document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
