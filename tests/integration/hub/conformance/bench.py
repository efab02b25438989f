"""Runs of the tester against a hub in this process."""

from __future__ import annotations

from collections.abc import Sequence

from agent_common.hub_client import HubAddress
from agent_conformance import Finding, HubOptions, TesterAgents, judge_hub

from .faulty_hubs import faulty
from .hub_server import TOKENS, HubServer, serving


async def judge(
    kind: type[HubServer] = HubServer, only: Sequence[str] = (), *, seconds: float = 60.0, agents: int = 3
) -> list[Finding]:
    """What the tester finds in a hub of this kind."""
    async with serving(kind) as url:
        tokens = dict(list(TOKENS.items())[:agents])
        tester = TesterAgents(HubAddress.parse(url), tokens, HubOptions(seconds, wait=60))
        return await judge_hub(tester, only)


def failed(findings: Sequence[Finding]) -> dict[str, str]:
    return {one.id: one.seen for one in findings if one.state == "failed"}


async def broken_by(fault: str, rule: str) -> list[Finding]:
    """What the tester finds in a hub with a fault when it tries one rule. It waits longer where the machine is slow."""
    findings: list[Finding] = []
    for seconds in (1.0, 10.0, 60.0):
        findings = await judge(faulty(fault), [rule], seconds=seconds)
        if failed(findings).keys() == {rule}:
            break
    return findings
