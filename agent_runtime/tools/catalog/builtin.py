"""The product's own tools, in the order that suits models best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent_common.clock import SystemClock

from ...ports import Events, HubAccess, Learnings, Search, SkillIndex, TeamRequests
from ...sandbox import Confinement, SandboxLimits
from ...workspace import FileBackups, PathLocks
from ..agent.correction import learn_tool
from ..agent.memory import FactStore, memory_tools
from ..agent.notify_user import notify_user_tool
from ..agent.question import question_tool
from ..agent.skill import NoSkills, skill_tool
from ..agent.task import task_tool
from ..agent.todo import todo_tool
from ..agent.tool_search import tool_search_tool
from ..bash.tool import bash_tool
from ..core.contract import Tool
from ..core.gate import DEFAULT_TIMEOUT
from ..files.edit import edit_tool
from ..files.glob_grep import FileSearch, glob_tool, grep_tool
from ..files.quota import QuotaCheck
from ..files.read import read_tool
from ..files.write import write_tool
from ..hub import hub_tools
from ..mesh import mesh_tools
from ..web.fetch import PageReader, web_fetch_tool
from ..web.search import web_search_tool

if TYPE_CHECKING:
    from agent_common.net import WebClient


AGENT_TIMEOUT = 600.0


def _ignore() -> None:
    return


def builtin_tools(
    confinement: Confinement,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    limits: SandboxLimits | None = None,
    egress: WebClient | None = None,
    search: Search | None = None,
    team: TeamRequests | None = None,
    on_subscribe: Callable[[], None] = _ignore,
    events: Events | None = None,
    hub: HubAccess | None = None,
    callable_agents: Sequence[tuple[str, str]] | None = None,
    agent_timeout: float = AGENT_TIMEOUT,
    skills: SkillIndex | None = None,
    learnings: Learnings | None = None,
    memory: FactStore | None = None,
    locks: PathLocks | None = None,
    backups: FileBackups | None = None,
) -> tuple[Tool, ...]:
    """Return the built-in tools. `timeout` is the default deadline of a command in seconds. Other code that changes
    files of the workspace must share the `locks`."""
    limits = limits or SandboxLimits()
    locks = locks or PathLocks()
    backups = backups or FileBackups(SystemClock())
    finder = FileSearch(confinement)
    space = QuotaCheck(confinement, limits)
    return (
        read_tool(locks),
        write_tool(locks, space, backups),
        edit_tool(locks, space, backups),
        glob_tool(finder),
        grep_tool(finder),
        bash_tool(confinement, timeout=timeout, limits=limits, upstream=egress.upstream if egress else None),
        *((web_fetch_tool(egress, PageReader(confinement)),) if egress else ()),
        *((web_search_tool(search),) if search else ()),
        *((task_tool(callable_agents, timeout=agent_timeout),) if callable_agents is not None else ()),
        question_tool(),
        *((notify_user_tool(events),) if events else ()),
        todo_tool(),
        skill_tool(skills or NoSkills()),
        tool_search_tool(),
        *((learn_tool(learnings),) if learnings else ()),
        *(memory_tools(memory) if memory else ()),
        *(mesh_tools(team, locks, space, backups, on_subscribe) if team else ()),
        *(hub_tools(hub) if hub else ()),
    )
