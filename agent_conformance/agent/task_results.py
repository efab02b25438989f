"""Rules for agents that report the ends of tasks which were not given over the channel."""

from __future__ import annotations

from typing import Any

from agent_testing.channel import Frame, is_ctl

from ..host import TesterHost, TesterSession
from ..rules import ConformanceRules, NotApplicable, RuleBroken

TASK_RESULTS: ConformanceRules[TesterHost] = ConformanceRules()


@TASK_RESULTS.rule("A72", "2.3", "Ends of tasks are reported only to a host that has said it takes them.")
async def reports_only_if_agreed(host: TesterHost) -> str:
    session = await _session(host)
    await _post_task(host)
    if await session.link.wait_for(_is_report, host.options.quiet_seconds * 2):
        raise RuleBroken("a task_result came")
    return "none came"


@TASK_RESULTS.rule("A73", "2.7", "The end of a task is reported again until it is acknowledged.")
async def reports_until_acknowledged(host: TesterHost) -> str:
    session = await _session(host, task_results=True)
    await _post_task(host)
    report = await _expect_report(host, session)
    session = await _session(host, task_results=True)
    again = await _expect_report(host, session, report)
    if again != report:
        raise RuleBroken(f"the task {report['task_id']} was reported with another result")
    await session.link.send(_ack_of(report))
    return f"{report['task_id']} twice"


@TASK_RESULTS.rule("A74", "2.7", "The end of a task that was acknowledged is not reported again.")
async def forgets_acknowledged_reports(host: TesterHost) -> str:
    session = await _session(host, task_results=True)
    await _post_task(host)
    report = await _expect_report(host, session)
    await session.link.send(_ack_of(report), {"ctl": "ping", "n": 1})
    await session.link.wait_for(lambda frame: is_ctl(frame, "pong"), host.options.quiet_seconds)  # the ack is read then
    session = await _session(host, task_results=True)
    if await session.link.wait_for(lambda frame: _names(frame, report), host.options.quiet_seconds * 2):
        raise RuleBroken(f"the task {report['task_id']} was reported again")
    return "forgotten"


async def _session(host: TesterHost, **welcome: Any) -> TesterSession:
    if host.post_task is None:
        raise NotApplicable("needs a task that is posted to the agent itself: give a command with --task")
    session = await host.new_session(**welcome)
    if not session.negotiated or session.offer is None or not session.offer.task_results:
        raise NotApplicable("the agent does not offer to report tasks")
    if session.resume is None:
        raise NotApplicable("no resume came: see A44")
    return session


async def _post_task(host: TesterHost) -> None:
    assert host.post_task is not None  # noqa: S101  `_session` has checked it
    await host.post_task()


async def _expect_report(host: TesterHost, session: TesterSession, same: Frame | None = None) -> Frame:
    """Return the first report, or that of the same task. Raises ExpectationFailed."""

    def fits(frame: Frame) -> bool:
        return _is_report(frame) if same is None else _names(frame, same)

    return await session.link.expect("a task_result", fits, host.options.timeout * 3)


def _is_report(frame: Frame) -> bool:
    return is_ctl(frame, "task_result")


def _names(frame: Frame, report: Frame) -> bool:
    return _is_report(frame) and (frame["task_id"], frame["user"]) == (report["task_id"], report["user"])


def _ack_of(report: Frame) -> Frame:
    return {"ctl": "task_ack", "task_id": report["task_id"], "user": report["user"]}
