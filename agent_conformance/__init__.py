"""The conformance tester: it plays host to any agent, and agent to any listener (docs/protocols/conformance.md).

It uses the protocol's shapes and plain sockets, and nothing of our own two ends.
"""

from .command import conformance
from .drive import CommandDrive, Drive, HttpDrive, NoDrive
from .guest import Guest
from .host import Host, Options
from .report import as_json, print_table, summary
from .rules import Finding, NotApplicable, Rule, RuleBroken
from .run import AGENT_RULES, LISTENER_RULES, judge_agent, judge_listener

__all__ = [
    "AGENT_RULES",
    "LISTENER_RULES",
    "CommandDrive",
    "Drive",
    "Finding",
    "Guest",
    "Host",
    "HttpDrive",
    "NoDrive",
    "NotApplicable",
    "Options",
    "Rule",
    "RuleBroken",
    "as_json",
    "conformance",
    "judge_agent",
    "judge_listener",
    "print_table",
    "summary",
]
