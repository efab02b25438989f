"""Results of tasks, given by the host or posted to the agent. Each becomes one row, in the commit that also has the end
of the work if the host gave it (docs/reference/results.md)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_common.clock import Clock
from agent_common.errors import ToolFailure
from agent_common.json_reader import JsonLimits, read_json
from agent_common.net import parse_url
from agent_common.protocol import PromotionRule, TaskResult, TaskStatus, is_assignment
from agent_common.protocol.work import ResultStatus, TaskReport, WorkRequest, WorkResult

from .promotions import NewResult, Promotions
from .sql import RESULT, Values
from .work import OpenWork

_CONTENT_LIMITS = JsonLimits(16 << 20, refuse_ambiguous=False)
_RESULT_LIMITS = JsonLimits(16 << 20, max_depth=64)
"""As deep as a frame may be: what is deeper could not be reported, and some who read the row could not read it."""

_STATUSES: dict[ResultStatus, TaskStatus] = {"completed": "complete", "failed": "failed", "yielded": "timeout"}
"""What a result of work is as a task, if its agent has sent no TaskResult. Work that was denied was never a task."""


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """Names a result that is on disk."""

    workspace: str
    task_id: str
    has_callback: bool


class TaskResults:
    """Makes the rows. The owner of the listener sets the two functions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.result_url_of: Callable[[str], str | None] = lambda _: None
        """Returns where a workspace wants the results of all its tasks sent; None: nowhere."""
        self.on_recorded: Callable[[RecordedResult], None] = lambda _: None
        """Called once a result is durable; a second time for a report that came again."""

    def row_of_report(self, workspace: str, report: TaskReport) -> NewResult:
        """Return the row of a result that an agent has reported."""
        return self._row(
            workspace,
            report.result,
            user=report.user,
            finished_at=report.finished_at,
            truncated=report.truncated,
            url=report.result_url,
            rule=report.promotion_rule,
        )

    def row_of_work(self, work: OpenWork, result: WorkResult) -> NewResult | None:
        """Return the row of work that was a task; None if it was a chat, or never began."""
        request = work.request
        if request.content_kind == "text" or result.status == "denied":
            return None
        found, whole = _task_result(request, result)
        return self._row(
            work.workspace,
            found,
            user=request.principal.name,
            finished_at=work.finished_at or self._clock.now_ms(),
            truncated=not whole,
            url=result_url_of(request),
            rule=_promotion_rule_of(request),
        )

    def announce(self, row: NewResult) -> None:
        """Tell the owner that the row is durable."""
        named = dict(zip(RESULT, row.values, strict=True))
        self.on_recorded(
            RecordedResult(named["workspace"], named["task_id"], has_callback=named["delivery"] is not None)
        )

    def _row(
        self,
        workspace: str,
        result: TaskResult,
        *,
        user: str,
        finished_at: int,
        truncated: bool,
        url: str | None,
        rule: PromotionRule | None,
    ) -> NewResult:
        now = self._clock.now_ms()
        delivery = _delivery(url or self.result_url_of(workspace), now)
        text = result.model_dump_json()
        values = workspace, result.task_id, user, finished_at, now, text, truncated, *delivery
        return NewResult(values, _promotions(workspace, result, rule))


def stored_size(row: NewResult) -> int:
    """Return the characters of the result."""
    return len(row.values[RESULT.index("result")])


def _promotions(workspace: str, result: TaskResult, rule: PromotionRule | None) -> Promotions | None:
    """Return what a complete task promotes; None: nothing."""
    values = result.promote_to_blackboard
    if result.status != "complete" or not values:
        return None
    return Promotions(workspace, result.task_id, result.session_id, values, rule or "last_writer")


def _delivery(text: str | None, now: int) -> Values:
    """Return the columns of the callback: it is due at once."""
    if text is None:
        return (None,) * 6
    try:
        url = parse_url(text)
    except ToolFailure as error:  # only a guest that checks nothing sends one
        return secrets.token_hex(16), text, None, "failed", None, str(error)
    return secrets.token_hex(16), str(url), url.host, "pending", now, None


def _task_result(request: WorkRequest, result: WorkResult) -> tuple[TaskResult, bool]:
    """Return the TaskResult that the content of a result is, or one with the content as text, and whether it is
    whole."""
    found = read_task_result(result.content)
    if found is not None:
        return found.model_copy(update={"task_id": request.request_id}), True
    code, _, text = (result.error or "").partition(":")
    made = TaskResult(
        task_id=request.request_id,
        status=_STATUSES.get(result.status, "failed"),
        result={"text": result.content} if result.content is not None else None,
        error=text.strip() or None,
        error_code=code.strip() or None,
    )
    return made, code != "result_too_large"


def read_task_result(content: str | None) -> TaskResult | None:
    """Return the TaskResult that the content of a result is; None if it is none."""
    try:
        return TaskResult.model_validate(read_json((content or "").encode(), _RESULT_LIMITS))
    except ValueError:
        return None


def result_url_of(request: WorkRequest) -> str | None:
    """Return the `result_url` of the TaskAssignment that the content of a request is; None if there is none."""
    url = _field_of(request, "result_url")
    return url if isinstance(url, str) else None


def _promotion_rule_of(request: WorkRequest) -> PromotionRule | None:
    """Return the `promotion_rule` of the same, likewise; its agent has refused an unknown one."""
    return "if_absent" if _field_of(request, "promotion_rule") == "if_absent" else None


def _field_of(request: WorkRequest, name: str) -> object:
    """Return a field of the TaskAssignment that the content of a request is; None if there is none."""
    if request.content_kind == "text" or f'"{name}"' not in request.content:
        return None
    try:
        content: Any = read_json(request.content.encode(), _CONTENT_LIMITS)
    except ValueError:
        return None
    return content.get(name) if is_assignment(content) else None
