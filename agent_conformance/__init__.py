"""The conformance tester: it acts as the host of any agent, and as the agent of any listener
(docs/protocols/conformance.md).

It uses the protocol's shapes and plain sockets, and no code of the runtime or the host.
"""

from .command import conformance
from .drive import CommandWorkDriver, HttpWorkDriver, NoWorkDriver, WorkDriver
from .guest import TesterGuest
from .host import Options, TesterHost
from .report import as_json, print_table, summary
from .rules import ConformanceRule, Finding, NotApplicable, RuleBroken
from .run import AGENT_RULES, LISTENER_RULES, judge_agent, judge_listener

__all__ = [
    "AGENT_RULES",
    "LISTENER_RULES",
    "CommandWorkDriver",
    "ConformanceRule",
    "Finding",
    "HttpWorkDriver",
    "NoWorkDriver",
    "NotApplicable",
    "Options",
    "RuleBroken",
    "TesterGuest",
    "TesterHost",
    "WorkDriver",
    "as_json",
    "conformance",
    "judge_agent",
    "judge_listener",
    "print_table",
    "summary",
]
