"""The settings of a runtime that a caller may choose for a workspace.

The runtime reads them from its environment, and the host checks by the same model what a caller asks for. Tokens,
addresses and paths are not among them: they are the operator's. The one exception is the folder that an agent works in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .compaction import CompactionPolicy

AGENT_PREFIX = "AGENT_"
_MAX_BRACKETS = 100
"""Of a setting that is JSON; reading deeper nesting could exhaust the stack."""
NARROWEST: Mapping[str, str] = {"confinement": "required", "skill_dependencies": "off"}
"""Settings that a caller may only narrow, with the one value that no operator's setting is narrower than."""


class AgentSettings(BaseModel):
    """Who the agent is, its model, and its limits."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    role: str = Field(default="assistant", min_length=1, max_length=200)
    """What the agent is for, shown in its prompt and status."""
    model: str = Field(default="default", min_length=1)
    """Model used unless a message names another."""
    embedding_model: str | None = Field(default=None, min_length=1)
    """Embedding model of the mesh that memory also searches by (docs/reference/memory.md); unset it searches by
    words."""
    hub: bool = False
    """Whether it joins the hub of its host, where agents talk to each other (docs/how-to/agents-on-the-hub.md)."""
    confinement: Literal["auto", "required", "off"] = "auto"
    """How commands and skills are confined: `auto` takes the best backend there is, `required` refuses to start without
    one, `off` confines nothing."""
    skill_dependencies: Literal["off", "people", "all"] = "people"
    """Whose plugins may have dependencies installed: those that people put into the folder, also those of
    `create_skill`, or none (docs/how-to/skills.md)."""
    skill_memory_mb: int = Field(default=512, ge=64)
    """Memory limit of the skill worker in MiB."""
    scratch_mb: int = Field(default=100, ge=1)
    """MiB that the scratch folder of a session may hold."""
    workspace_mb: int = Field(default=10_240, ge=1)
    """MiB that the workspace may hold."""
    workspace_dir: str | None = Field(default=None, pattern=r"^/.*[^/].*$", max_length=1000)
    """Folder of yours that the agent works in (docs/reference/workspace.md#a-folder-of-yours); unset it is
    {AGENT_DATA_DIR}/workspace."""
    max_iterations: int = Field(default=20, ge=1, le=500)
    """Steps in a task."""
    max_rounds: int = Field(default=30, ge=1, le=500)
    """Steps in a chat turn."""
    max_concurrent_turns: int = Field(default=4, ge=1, le=256)
    """Turns that run at the same time, shared between users (docs/reference/http.md#several-users)."""
    max_queue: int = Field(default=100, ge=0, le=10_000)
    """Turns of one user that may wait; one more is answered with 429. Those of all users may be twice as many."""
    max_parallel_tools: int = Field(default=8, ge=1, le=64)
    """Tool calls of one step that run at the same time."""
    max_subagents: int = Field(default=8, ge=1, le=64)
    """Agents called by others that work at the same time, at each depth."""
    subagent_timeout: float = Field(default=600, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds that an agent called by another may take."""
    turn_timeout: float = Field(default=1800, gt=0, allow_inf_nan=False)
    """Seconds a chat turn may take."""
    answer_timeout: float = Field(default=604_800, gt=0, le=31_536_000, allow_inf_nan=False)
    """Seconds a question or an approval stays open before its turn ends."""
    tool_timeout: float = Field(default=120, gt=0, allow_inf_nan=False)
    """Seconds a tool call may take unless the tool says otherwise."""
    model_idle_timeout: float = Field(default=120, gt=0, allow_inf_nan=False)
    """Seconds without a byte in the middle of a model's answer before the call is given up; before its first byte 2.5
    times as many."""
    model_attempts: int = Field(default=4, ge=1, le=20)
    """Times a model call is made before its transient failure counts."""
    context_limit: int | None = Field(default=None, ge=1024)
    """Tokens of the model's window; unset it is the model catalog's, else 128000."""
    compaction: CompactionPolicy = Field(default_factory=CompactionPolicy)
    """How long conversations are compacted, as JSON: reserve_tokens, tail_turns, tail_budget_pct, model,
    retry_on_transient, smart_recovery{prune_tool_outputs, chunked_summarize, drop_middle}."""
    mediation_window: int = Field(default=1, ge=1, le=256)
    """Requests of the host that are worked on at the same time."""
    mediation_grace: float = Field(default=30, ge=0, le=86_400, allow_inf_nan=False)
    """Seconds that work is held while a required channel is broken, before it ends as yielded."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious log line that is written."""

    @field_validator("compaction", mode="before")
    @classmethod
    def _json(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.count("[") + value.count("{") > _MAX_BRACKETS:
            raise ValueError("has too many levels")
        return json.loads(value)  # noqa: TID251  its depth is bounded
