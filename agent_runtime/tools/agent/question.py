"""`question`: asks the person, and waits for the answer as long as it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ToolFailure
from ...ports import HumanRequest, ToolContext, ToolSpec
from ..core.contract import NeedsHuman, Tool

HEADLESS = "no person is there to answer: decide for yourself, or say in your final answer what you would need to know"
DESCRIPTION = (
    "Ask the person you work for, when only they can decide and a guess would be costly. Not for what you can look "
    "up, and not to announce what you do. All questions of one call are shown together; the answer comes as the "
    "result, one list of texts per question in the same order."
)
_OPTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "minLength": 1, "description": "What is answered when it is chosen"},
        "description": {"type": "string", "description": "What choosing it means"},
    },
    "required": ["label"],
    "additionalProperties": False,
}
_QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 1, "description": "The whole question"},
        "header": {"type": "string", "description": "A word or two above it"},
        "options": {"type": "array", "items": _OPTION, "maxItems": 20, "description": "Answers to choose from"},
        "multi_select": {"type": "boolean", "description": "More than one option may be chosen"},
    },
    "required": ["question"],
    "additionalProperties": False,
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": _QUESTION,
            "minItems": 1,
            "maxItems": 20,
            "description": "What to ask, all at once",
        }
    },
    "required": ["questions"],
    "additionalProperties": False,
}


def question_tool() -> Tool:
    async def run(_: Mapping[str, Any], context: ToolContext) -> Any:
        if not context.interactive:
            raise ToolFailure(HEADLESS, kind="unavailable")
        raise NeedsHuman(HumanRequest("question"))

    return Tool(
        ToolSpec("question", DESCRIPTION, PARAMETERS),
        run,
        result_doc="`answers`: one list of texts per question",
        limits_doc="waits for a person ([page](waits.md)); an error where nobody is there",
    )
