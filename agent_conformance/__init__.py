"""The conformance tester: it acts as the host of any agent, as the agent of any listener, and as the agents of any hub
(docs/protocols/conformance.md).

It uses the protocol's shapes and plain sockets, and no code of the runtime or the host.
"""

from .command import conformance
from .drive import CommandWorkDriver, HttpWorkDriver, NoWorkDriver, WorkDriver
from .guest import TesterGuest
from .host import Options, TesterHost
from .hub import HubOptions, TesterAgents
from .report import as_json, print_table, summary
from .rules import ConformanceRule, Finding, NotApplicable, RuleBroken
from .run import AGENT_RULES, HUB_RULES, LISTENER_RULES, judge_agent, judge_hub, judge_listener

__all__ = [
    "AGENT_RULES",
    "HUB_RULES",
    "LISTENER_RULES",
    "CommandWorkDriver",
    "ConformanceRule",
    "Finding",
    "HttpWorkDriver",
    "HubOptions",
    "NoWorkDriver",
    "NotApplicable",
    "Options",
    "RuleBroken",
    "TesterAgents",
    "TesterGuest",
    "TesterHost",
    "WorkDriver",
    "as_json",
    "conformance",
    "judge_agent",
    "judge_hub",
    "judge_listener",
    "print_table",
    "summary",
]
