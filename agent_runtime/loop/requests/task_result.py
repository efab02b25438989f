"""The result contract of a task: the instructions for the agent, and the parsing of its final answer."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from agent_common.protocol import TaskAssignment, TaskRecord, Usage, is_object

from ...sessions import text_of, tool_name
from ..limits.limits import TurnOutcome

_RESULT_CONTRACT = """\
When the work is done, answer with one JSON object and nothing else: \
{"result": {...}, "promote": {...}}. `result` holds what was asked for; `promote` holds facts that other agents \
should see and may be empty. If you cannot give JSON, answer in plain text."""


def task_message(assignment: TaskAssignment) -> str:
    """Return the assignment as the user message of its session."""
    sections = [
        f"Task of type {assignment.task_type} (workflow {assignment.workflow_id}, step {assignment.step_id}).",
        f"Input:\n```json\n{json.dumps(assignment.input_data, ensure_ascii=False, indent=1)}\n```",
    ]
    if assignment.context:
        sections.append(f"Context:\n```json\n{json.dumps(assignment.context, ensure_ascii=False, indent=1)}\n```")
    return "\n\n".join([*sections, _RESULT_CONTRACT])


def result_of(outcome: TurnOutcome, parts: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return result and promotions. If a limit ended the turn, the result is partial and marked as such."""
    text = text_of(parts)
    if outcome.status == "complete":
        return parse_answer(text)
    calls = sum(1 for part in parts if tool_name(part) is not None)
    if outcome.finish_reason == "error" and not text and not calls:
        return None, {}
    steps = sum(1 for part in parts if part["type"] == "step-start")
    answer, _ = parse_answer(text)
    return {**answer, "partial": True, "steps": steps, "tool_calls": calls}, {}


def parse_answer(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse `{"result": {...}, "promote": {...}}`, with or without a Markdown fence. Other text is the field `text`."""
    try:
        answer: Any = from_json(_unfenced(text))
    except ValueError:
        return {"text": text}, {}
    result, promote = (answer.get("result"), answer.get("promote")) if is_object(answer) else (None, None)
    if not is_object(result):
        return {"text": text}, {}
    return result, promote if is_object(promote) else {}


def finished_record(record: TaskRecord, outcome: TurnOutcome, parts: list[dict[str, Any]], usage: Usage) -> TaskRecord:
    """Return the record with its outcome and result."""
    result, promote = result_of(outcome, parts)
    changes = {
        "status": outcome.status,
        "result": result,
        "error": outcome.error,
        "error_code": outcome.error_code,
        "limit": outcome.limit,
        "retry_after": outcome.retry_after,
        "promote_to_blackboard": promote,
        "tokens_used": usage.total,
        "usage": usage,
    }
    return record.model_copy(update=changes)


def _unfenced(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped
