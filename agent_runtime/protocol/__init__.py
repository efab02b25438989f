"""What both ends must agree on: the shape of every message. No sockets, no files, no clock."""

from . import chunks
from .base import is_object
from .chat import (
    DEFAULT_WAIT_SECONDS,
    MAX_WAIT_SECONDS,
    AbortReply,
    AnswerReply,
    AnswerRequest,
    CancelReply,
    ChatPending,
    ChatReply,
    ChatRequest,
    OnBusy,
    ResetReply,
    ResetRequest,
    TextPart,
    ToolOutput,
    UIMessage,
    UseChatRequest,
)
from .docs import field_docs
from .mesh import ModelCard, ModelList, Pricing
from .problem import PROBLEM_JSON, FieldFault, Problem
from .schemas import json_schemas
from .status import AgentStatus, Capabilities, EffectiveLimits, SessionCounts, SkillState, ToolSource
from .task import RecordStatus, TaskAccepted, TaskAssignment, TaskRecord, TaskResult, TokenBudget, new_task_id
from .usage import Usage

__all__ = [
    "DEFAULT_WAIT_SECONDS",
    "MAX_WAIT_SECONDS",
    "PROBLEM_JSON",
    "AbortReply",
    "AgentStatus",
    "AnswerReply",
    "AnswerRequest",
    "CancelReply",
    "Capabilities",
    "ChatPending",
    "ChatReply",
    "ChatRequest",
    "EffectiveLimits",
    "FieldFault",
    "ModelCard",
    "ModelList",
    "OnBusy",
    "Pricing",
    "Problem",
    "RecordStatus",
    "ResetReply",
    "ResetRequest",
    "SessionCounts",
    "SkillState",
    "TaskAccepted",
    "TaskAssignment",
    "TaskRecord",
    "TaskResult",
    "TextPart",
    "TokenBudget",
    "ToolOutput",
    "ToolSource",
    "UIMessage",
    "Usage",
    "UseChatRequest",
    "chunks",
    "field_docs",
    "is_object",
    "json_schemas",
    "new_task_id",
]
