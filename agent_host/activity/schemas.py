"""Answers of `GET /pending`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from agent_common.protocol import ListedRequest


class AgentRequest(ListedRequest):
    """A question or an approval that waits for a person in one of the agents."""

    model_config = ConfigDict(defer_build=False)

    workspace: str
    """The agent's workspace; the answer goes to `/workspaces/{workspace}/api/chat/{session_id}/answer`."""


class UnreachableAgent(BaseModel):
    """An agent whose requests are not in the list."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    workspace: str
    code: str
    """`agent_unreachable`, `invalid_answer`, `too_many`, `not_running`, `quarantined` or `not_offered`."""
    detail: str


class PendingPage(BaseModel):
    """Answer to `GET /pending`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    pending: list[AgentRequest]
    """Oldest first."""
    next: str | None = None
    """Pass it as `after` for the next page; null: there are no more."""
    unreachable: list[UnreachableAgent] = []
    """The agents that were asked and have not answered."""
