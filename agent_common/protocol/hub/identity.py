"""Who an agent is (passport) and what it can do (resume)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from ..base import Inbound

AgentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
AgentKind = Literal["agent", "human", "remote_agent"]
MAX_RESUME = 128 << 10
"""Most bytes of a resume as JSON: what an agent is has to fit into a frame, in which its skills are twice."""
_Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class CostProfile(Inbound):
    """What an agent costs."""

    input_per_mtok: float = Field(default=0.0, ge=0)
    """US dollars for a million tokens that it reads."""
    output_per_mtok: float = Field(default=0.0, ge=0)
    """US dollars for a million tokens that it writes."""
    latency_tier: Literal["fast", "balanced", "deep"] = "balanced"
    """How long it takes."""


class Passport(Inbound):
    """Who an agent is. Its name is unique on a hub."""

    name: AgentName
    """The name by which others address it."""
    kind: AgentKind = "agent"
    """Whether an agent, a person or an agent of another hub is behind it."""
    owner: str = Field(default="", max_length=200)
    """Who is responsible for it."""
    provider: str = Field(default="", max_length=200)
    """The provider of its model."""
    model: str = Field(default="", max_length=200)
    """Its model."""
    region: str = Field(default="", max_length=200)
    """Where it runs."""
    url: str = Field(default="", max_length=2000)
    """Where it can be reached besides the hub."""
    cost: CostProfile | None = None
    """What it costs."""


class ResumeSkill(Inbound):
    """One thing that an agent can do."""

    id: _Word
    """Unique among the skills of the agent."""
    name: _Word
    """Its name for people."""
    description: str = Field(default="", max_length=2000)
    """What it does."""
    tags: tuple[_Word, ...] = Field(default=(), strict=False, max_length=50)
    """Words by which it is found."""


class ResumeExample(Inbound):
    """Something that an agent has done."""

    title: _Word
    """What it was."""
    outcome: str = Field(default="", max_length=2000)
    """How it ended."""


class Resume(Inbound):
    """What an agent can do, in its own words."""

    summary: str = Field(default="", max_length=4000)
    """In a few sentences."""
    claimed_capabilities: tuple[_Word, ...] = Field(default=(), strict=False, max_length=200)
    """Words by which others find it."""
    domains: tuple[_Word, ...] = Field(default=(), strict=False, max_length=200)
    """Subjects that it knows."""
    skills: tuple[ResumeSkill, ...] = Field(default=(), strict=False, max_length=200)
    """What it can do, one by one."""
    examples: tuple[ResumeExample, ...] = Field(default=(), strict=False, max_length=50)
    """What it has done."""


def agent_card(passport: Passport, resume: Resume) -> dict[str, Any]:
    """The agent as a card of A2A 1.0: name, description, url, skills, capabilities."""
    claimed = [{"id": word, "name": word, "description": "", "tags": [word]} for word in resume.claimed_capabilities]
    return {
        "name": passport.name,
        "description": resume.summary,
        "url": passport.url,
        "skills": [skill.model_dump(mode="json") for skill in resume.skills] or claimed,
        "capabilities": {"streaming": False, "pushNotifications": False},
    }
