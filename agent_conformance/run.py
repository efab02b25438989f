"""Run the rules one after the other; after a failed rule the next ones are still tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent_common.errors import StartError
from agent_testing.channel import Dialect, ExpectationFailed

from .agent import CONTROL, DRAIN, GLOBAL, HELLO, INPUT, LINK, TASK_RESULTS, WORK
from .guest import TesterGuest
from .host import TesterHost
from .hub import HUB, TesterAgents
from .listener import control, hello, task_results, work
from .rules import ConformanceRule, Finding, NotApplicable

B = TypeVar("B")
AGENT_RULES: tuple[ConformanceRule[TesterHost], ...] = (
    *HELLO.all,
    *WORK.all[:3],
    *LINK.all[:1],
    *WORK.all[3:],
    *INPUT.all,
    *CONTROL.all,
    *LINK.all[1:],
    *TASK_RESULTS.all,
    *DRAIN.all,
    *GLOBAL.all,
)
"""In the order in which they are tried."""
LISTENER_RULES: tuple[ConformanceRule[TesterGuest], ...] = (
    *hello.HELLO.all,
    *work.WORK.all,
    *control.CONTROL.all,
    *task_results.TASK_RESULTS.all,
    *hello.GLOBAL.all,
)
HUB_RULES: tuple[ConformanceRule[TesterAgents], ...] = HUB


async def judge_agent(host: TesterHost, only: Sequence[str] = ()) -> list[Finding]:
    """Act as the host and check the agent that dials. Raises StartError if none does."""
    async with host.listening():
        try:
            return await run_rules(
                AGENT_RULES, host, only, lambda failed: _reset_host(host, failed), host.options.dialect
            )
        finally:
            await host.close()


async def judge_listener(guest: TesterGuest, only: Sequence[str] = ()) -> list[Finding]:
    """Act as an agent and check the listener. Raises StartError if there is none."""

    async def clean(failed: bool) -> None:
        if failed and guest.options.dialect == "strict":
            guest.pending_request = None
            await guest.drop()

    try:
        return await run_rules(LISTENER_RULES, guest, only, clean, guest.options.dialect)
    finally:
        await guest.close()


async def judge_hub(agents: TesterAgents, only: Sequence[str] = ()) -> list[Finding]:
    """Act as agents and check the hub. Raises StartError if there is none, or if it lets none of them in."""

    async def clean(failed: bool) -> None:
        if failed:
            await agents.drop()
        await agents.start_over()

    try:
        return await run_rules(HUB_RULES, agents, only, clean)
    finally:
        await agents.close()


async def _reset_host(host: TesterHost, failed: bool) -> None:
    """Undo what a rule has changed, so that it does not affect the next."""
    host.send_acks = host.send_pongs = True
    if failed and host.options.dialect == "strict" and host.drained_link is None:
        await host.drop()


async def run_rules(
    rules: Sequence[ConformanceRule[B]],
    tester: B,
    only: Sequence[str],
    clean_up: Callable[[bool], Awaitable[None]],
    dialect: Dialect = "strict",
) -> list[Finding]:
    """Try the rules in order. If the first one fails, the others are skipped, since all depend on it."""
    found: list[Finding] = []
    first_passed = True
    for number, rule in enumerate(rules):
        if only and rule.id not in only and number > 0:
            continue
        if dialect == "loose" and not rule.loose:
            found.append(_finding(rule, "skipped", "not promised by the guide"))
            continue
        if not first_passed:
            found.append(_finding(rule, "skipped", f"not tried: see {rules[0].id}"))
            continue
        found.append(await _run_rule(rule, tester))
        first_passed = number > 0 or found[-1].state == "passed"
        await clean_up(found[-1].state == "failed")
    return sorted(found, key=lambda finding: finding.id)


async def _run_rule(rule: ConformanceRule[B], tester: B) -> Finding:
    try:
        return _finding(rule, "passed", await rule.check(tester) or "")
    except ExpectationFailed as broken:
        return _finding(rule, "failed", str(broken))
    except NotApplicable as reason:
        return _finding(rule, "skipped", str(reason))
    except StartError:
        raise
    except Exception as error:  # noqa: BLE001  a peer that makes the tester fail has broken the rule
        return _finding(rule, "failed", f"the tester failed on what came: {type(error).__name__}: {error}")


def _finding(rule: ConformanceRule[B], state: str, seen: str) -> Finding:
    return Finding(rule.id, rule.text, rule.section, state, seen[:400])  # pyright: ignore[reportArgumentType]
