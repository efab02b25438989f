"""The result contract of a task: the instructions for the agent, and the parsing of its final answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  its cost is checked before

from agent_common.json_reader import JsonLimits, check_cost
from agent_common.protocol import TaskAssignment, TaskRecord, Usage, is_object

from ...errors import InvalidRequest
from ...sessions import text_of, tool_name
from ...tools import check_answer_schema, check_arguments, load_schema_validator
from ..core.turn_state import AnswerCheck
from ..limits.outcome import TurnOutcome

_ANSWER_LIMITS = JsonLimits(16 << 20)
_RESULT_CONTRACT = """\
When the work is done, answer with one JSON object and nothing else: \
{"result": {...}, "promote": {...}}. `result` holds what was asked for; `promote` holds facts that other agents \
should see and may be empty."""
_WITHOUT_SCHEMA = "If you cannot give JSON, answer in plain text."
_WITH_SCHEMA = "`result` must fit this JSON Schema:\n```json\n{schema}\n```"


def task_message(assignment: TaskAssignment) -> str:
    """Return the assignment as the user message of its session."""
    step = f" (workflow {assignment.workflow_id}, step {assignment.step_id})" if assignment.is_step else ""
    sections = [f"Task of type {assignment.task_type}{step}."]
    if assignment.objective is not None:
        sections.append(f"Objective: {assignment.objective}")
    if assignment.input_data or assignment.objective is None:
        sections.append(f"Input:\n```json\n{json.dumps(assignment.input_data, ensure_ascii=False, indent=1)}\n```")
    if assignment.context:
        sections.append(f"Context:\n```json\n{json.dumps(assignment.context, ensure_ascii=False, indent=1)}\n```")
    schema = assignment.result_schema
    rule = _WITHOUT_SCHEMA if schema is None else _WITH_SCHEMA.format(schema=json.dumps(schema, ensure_ascii=False))
    return "\n\n".join([*sections, f"{_RESULT_CONTRACT} {rule}"])


async def require_usable_schema(assignment: TaskAssignment) -> None:
    """Raise InvalidRequest if results cannot be checked against the task's schema."""
    if assignment.result_schema is None:
        return
    fault = await check_answer_schema(assignment.result_schema)
    if fault is not None:
        path, text = fault
        raise InvalidRequest.from_faults([(f"result_schema.{path}".removesuffix("."), text)])


def answer_check(assignment: TaskAssignment) -> AnswerCheck | None:
    """Return the check of the task's final answer; None if every answer is accepted."""
    schema = assignment.result_schema
    return None if schema is None else partial(_answer_fault, schema)


async def _answer_fault(schema: Mapping[str, Any], text: str) -> str | None:
    parsed = _parsed(text)
    if parsed is None:
        return 'it is not one JSON object {"result": {...}, "promote": {...}}'
    await load_schema_validator()
    stored: dict[str, Any] = from_json(to_json(parsed[0], inf_nan_mode="null"))  # as it is stored
    return "; ".join(await check_arguments(schema, stored, "result")) or None


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
    return _parsed(text) or ({"text": text}, {})


def _parsed(text: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        document = _unfenced(text).encode()
        check_cost(document, _ANSWER_LIMITS)
        answer: Any = from_json(document)
    except ValueError:
        return None
    result, promote = (answer.get("result"), answer.get("promote")) if is_object(answer) else (None, None)
    if not is_object(result):
        return None
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
