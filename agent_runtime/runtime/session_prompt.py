"""What an agent is told that enters a session."""

from __future__ import annotations

from dataclasses import dataclass

from ..agents import Manifest
from ..context import PromptEnvironment, PromptInputs, digest, system_prompt
from ..learnings import LearningService
from ..loop import AuthorityResolver
from ..ports import Clock
from ..sandbox import ConfinementName
from ..sessions import AgentPrompt
from ..settings import Settings
from ..workspace import Home, PromptFileAuthors, read_bootstrap_files, read_instructions
from .agent_tools import AgentTools

_NETWORK: dict[ConfinementName, str] = {
    "off": "commands share that of the server",
    "none": "no commands can run",
}
_CONFINED = "none for commands, unless your permissions open a host"


@dataclass(frozen=True, slots=True)
class SessionPromptBuilder:
    """Drafts it; a session keeps what it was told first."""

    settings: Settings
    home: Home
    clock: Clock
    authority_resolver: AuthorityResolver
    agent_tools: AgentTools
    learnings: LearningService
    authors: PromptFileAuthors
    confinement: ConfinementName

    def __call__(self, manifest: Manifest, principal: str) -> AgentPrompt:
        authority = self.authority_resolver.resolve_standalone(manifest)
        names = tuple(spec.name for spec in self.agent_tools.tools.snapshot(authority=authority).specs)
        directions = read_instructions(self.home, principal, self.authors)
        packages = self.agent_tools.skill_library.offered(authority, names)
        material = PromptInputs(
            agent_id=self.settings.id,
            role=self.settings.role,
            agent=(manifest.name, manifest.prompt),
            instructions=directions,
            files=read_bootstrap_files(self.home, principal, self.authors),
            learnings=self.learnings.render_section(principal),
            skills=[(package.name, package.description) for package in packages if not package.person_only],
            servers=self.agent_tools.connectors.offered(authority) if "tool_search" in names else (),
        )
        around = PromptEnvironment(
            now_ms=self.clock.now_ms(),
            model=manifest.model or self.settings.model,
            workspace=str(self.home.workspace),
            network=_NETWORK.get(self.confinement, _CONFINED),
        )
        prompt = system_prompt(material, around)
        return AgentPrompt(prompt, digest(prompt), names, {package.name: package.source for package in packages})
