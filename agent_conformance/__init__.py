"""The conformance tester: it acts as the host of any agent, as the agent of any listener, and as the agents of any hub
(docs/protocols/conformance.md).

It uses the protocol's shapes and plain sockets, and no code of the runtime or the host.
"""

from typing import TYPE_CHECKING, Any

from .command import conformance

if TYPE_CHECKING:
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

_LAZY_EXPORTS = {
    "drive": ("CommandWorkDriver", "HttpWorkDriver", "NoWorkDriver", "WorkDriver"),
    "guest": ("TesterGuest",),
    "host": ("Options", "TesterHost"),
    "hub": ("HubOptions", "TesterAgents"),
    "report": ("as_json", "print_table", "summary"),
    "rules": ("ConformanceRule", "Finding", "NotApplicable", "RuleBroken"),
    "run": ("AGENT_RULES", "HUB_RULES", "LISTENER_RULES", "judge_agent", "judge_hub", "judge_listener"),
}
_MODULE_OF_NAME = {name: home for home, names in _LAZY_EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the tester when it is first used: the commands of a host start without it."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
