"""Runs the rules one after the other; what breaks one rule does not keep the next from being tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent_common.errors import StartError
from agent_testing.channel import ExpectationFailed

from .agent import CONTROL, DRAIN, GLOBAL, HELLO, INPUT, LINK, WORK
from .guest import TesterGuest
from .host import Options, TesterHost
from .listener import control, hello, work
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
    *DRAIN.all,
    *GLOBAL.all,
)
"""In the order in which they are tried."""
LISTENER_RULES: tuple[ConformanceRule[TesterGuest], ...] = (
    *hello.HELLO.all,
    *work.WORK.all,
    *control.CONTROL.all,
    *hello.GLOBAL.all,
)


async def judge_agent(host: TesterHost, only: Sequence[str] = ()) -> list[Finding]:
    """Plays the host, and holds the rules against the agent that dials in. Raises StartError when none does."""
    async with host.listening():
        try:
            return await run_rules(AGENT_RULES, host, host.options, only, lambda failed: _reset_host(host, failed))
        finally:
            await host.close()


async def judge_listener(guest: TesterGuest, only: Sequence[str] = ()) -> list[Finding]:
    """Plays the agent, and holds the rules against the listener. Raises StartError when there is none."""

    async def clean(failed: bool) -> None:
        if failed and guest.options.dialect == "strict":
            guest.pending_request = None
            await guest.drop()

    try:
        return await run_rules(LISTENER_RULES, guest, guest.options, only, clean)
    finally:
        await guest.close()


async def _reset_host(host: TesterHost, failed: bool) -> None:
    """What a rule has changed, or left behind when it failed, must not spoil the next."""
    host.send_acks = host.send_pongs = True
    if failed and host.options.dialect == "strict" and host.drained_link is None:
        await host.drop()


async def run_rules(
    rules: Sequence[ConformanceRule[B]],
    tester: B,
    options: Options,
    only: Sequence[str],
    clean_up: Callable[[bool], Awaitable[None]],
) -> list[Finding]:
    """Tries the rules in order; the first one that is tried is what all others stand on."""
    found: list[Finding] = []
    stands = True
    for number, rule in enumerate(rules):
        if only and rule.id not in only and number > 0:
            continue
        if options.dialect == "loose" and not rule.loose:
            found.append(_finding(rule, "skipped", "not promised by the guide"))
            continue
        if not stands:
            found.append(_finding(rule, "skipped", f"not tried: see {rules[0].id}"))
            continue
        found.append(await _run_rule(rule, tester))
        stands = number > 0 or found[-1].state == "passed"
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
    except Exception as error:  # noqa: BLE001  a peer that makes the tester stumble has broken the rule that was tried
        return _finding(rule, "failed", f"the tester stumbled over what came: {type(error).__name__}: {error}")


def _finding(rule: ConformanceRule[B], state: str, seen: str) -> Finding:
    return Finding(rule.id, rule.text, rule.section, state, seen[:400])  # pyright: ignore[reportArgumentType]
