"""A client for agents and their host: typed, async, and over broken connections.

    async with Agent("http://localhost:8400", token) as agent:
        report = await agent.run("Summarize sales.csv", result=Report)

The reference is docs/reference/client.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent
    from .chat import (
        Approval,
        ChatEvent,
        ChatStream,
        Failed,
        Finished,
        Notice,
        Question,
        Queued,
        Reply,
        Started,
        Steered,
        StepFinished,
        StepStarted,
        TextDelta,
        TextReplaced,
        ToolCall,
        ToolResult,
        TurnFailed,
    )
    from .errors import (
        ApiError,
        ClientError,
        Conflict,
        ConnectionFailed,
        DeadlineExceeded,
        Forbidden,
        InvalidRequest,
        InvalidResult,
        MapFailed,
        ModelFailed,
        NotFound,
        NotRunning,
        NotWaiting,
        PreconditionFailed,
        Quarantined,
        ServerFailed,
        SessionBusy,
        TaskFailed,
        TooManyRequests,
        Unauthorized,
        Unavailable,
        UnexpectedReply,
    )
    from .events import AgentEvent
    from .files import FileInfo, Files
    from .host_messages import (
        CommandOutcome,
        CreatedToken,
        CreatedWorkspace,
        Delivery,
        HostRequest,
        ResultRecord,
        Token,
        UnreachableAgent,
        UsageReport,
        WorkRecord,
        Workspace,
    )
    from .mesh import Mesh, Pending, Tokens
    from .sessions import Sessions
    from .tasks import Limits, Task
    from .team import Artifacts, Blackboard, Team, TeamAgents, TeamEvent, Topics
    from .work import Work, WorkEvent
    from .workspaces import Workspaces

__all__ = [
    "Agent",
    "AgentEvent",
    "ApiError",
    "Approval",
    "Artifacts",
    "Blackboard",
    "ChatEvent",
    "ChatStream",
    "ClientError",
    "CommandOutcome",
    "Conflict",
    "ConnectionFailed",
    "CreatedToken",
    "CreatedWorkspace",
    "DeadlineExceeded",
    "Delivery",
    "Failed",
    "FileInfo",
    "Files",
    "Finished",
    "Forbidden",
    "HostRequest",
    "InvalidRequest",
    "InvalidResult",
    "Limits",
    "MapFailed",
    "Mesh",
    "ModelFailed",
    "NotFound",
    "NotRunning",
    "NotWaiting",
    "Notice",
    "Pending",
    "PreconditionFailed",
    "Quarantined",
    "Question",
    "Queued",
    "Reply",
    "ResultRecord",
    "ServerFailed",
    "SessionBusy",
    "Sessions",
    "Started",
    "Steered",
    "StepFinished",
    "StepStarted",
    "Task",
    "TaskFailed",
    "Team",
    "TeamAgents",
    "TeamEvent",
    "TextDelta",
    "TextReplaced",
    "Token",
    "Tokens",
    "TooManyRequests",
    "ToolCall",
    "ToolResult",
    "Topics",
    "TurnFailed",
    "Unauthorized",
    "Unavailable",
    "UnexpectedReply",
    "UnreachableAgent",
    "UsageReport",
    "Work",
    "WorkEvent",
    "WorkRecord",
    "Workspace",
    "Workspaces",
]

_MODULES = (
    "errors",
    "agent",
    "chat",
    "events",
    "files",
    "host_messages",
    "mesh",
    "sessions",
    "tasks",
    "team",
    "work",
    "workspaces",
)


def __getattr__(name: str) -> Any:
    """Import a name where it is first used: the command `agent` answers `--help` without the HTTP library."""
    if name in __all__:
        for module in map(import_module, (f"{__name__}.{one}" for one in _MODULES)):
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
