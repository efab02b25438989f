"""JSON Schemas of every message, by file name."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from .artifacts import ArtifactList, StoredArtifact
from .blackboard import ChangeList, Claim, ClaimRequest, Entry, EntryList, PutEntry
from .chunks import chunk_adapter
from .compaction import CompactReply
from .http.chat import (
    AbortReply,
    AnswerReply,
    AnswerRequest,
    CancelReply,
    ChatPending,
    ChatReply,
    ChatRequest,
    ResetReply,
    ResetRequest,
    UseChatRequest,
)
from .http.pending import PendingList
from .http.session import (
    ForkRequest,
    ImportedSession,
    MessageList,
    PromptReply,
    RewindReply,
    RewindRequest,
    SessionDetail,
    SessionList,
    SessionPatch,
    UnrewindReply,
)
from .http.status import AgentStatus, Capabilities
from .http.task import TaskAccepted, TaskAssignment, TaskList, TaskRecord, TaskResult, TokenBudget
from .http.workspace import WorkspaceListing
from .mesh import ModelCard
from .peers import AskPeer, AskReply, CancelledAsk, HandedOff, HandOff, PeerCard, PeerList
from .permission import (
    AgentPermissions,
    AgentPermissionsList,
    AgentPermissionsUpdate,
    Permissions,
    PermissionsUpdate,
    RequirementSet,
)
from .problem import Problem
from .subscriptions import Receive, Subscribe, Subscription, SubscriptionList, TopicDeadLetters, TopicDeliveries
from .topics import Publish, Published, TopicMessages

_MESSAGES = (
    *(TaskAssignment, TokenBudget, TaskAccepted, TaskResult, TaskRecord, TaskList),
    *(ChatRequest, UseChatRequest, ChatReply, ChatPending, ResetRequest, ResetReply),
    *(AbortReply, AnswerRequest, AnswerReply, CancelReply, PendingList),
    *(SessionList, SessionDetail, ImportedSession, SessionPatch, MessageList, PromptReply),
    *(ForkRequest, RewindRequest, RewindReply, UnrewindReply, CompactReply),
    *(Permissions, PermissionsUpdate, RequirementSet),
    *(AgentPermissions, AgentPermissionsList, AgentPermissionsUpdate),
    *(AgentStatus, Capabilities, ModelCard, Problem),
    WorkspaceListing,
    *(PutEntry, Entry, EntryList, ChangeList, ClaimRequest, Claim),
    *(Publish, Published, TopicMessages),
    *(Subscribe, Subscription, SubscriptionList, Receive, TopicDeliveries, TopicDeadLetters),
    *(StoredArtifact, ArtifactList),
    *(PeerCard, PeerList, AskPeer, AskReply, CancelledAsk, HandOff, HandedOff),
)


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema (draft 2020-12) of each message and of the chunk union, by name."""
    schemas = {message.__name__: TypeAdapter(message).json_schema() for message in _MESSAGES}
    return {**schemas, "Chunk": chunk_adapter().json_schema()}
