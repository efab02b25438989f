"""The page of the hub, run from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs/reference/hub.md"


async def test_the_examples_of_the_page_run_in_their_order() -> None:
    examples = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text("utf-8"))
    assert len(examples) >= 7
    names: dict[str, Any] = {}
    for example in examples:
        code = compile(example, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)  # noqa: S307
        if result is not None:
            await result
