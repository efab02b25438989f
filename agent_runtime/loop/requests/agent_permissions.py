"""The rules of a person for all their sessions with an agent, as a resource
(docs/reference/permissions.md#the-rules-of-a-person-for-an-agent)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_common.protocol import AgentPermissions, AgentPermissionsList, AgentPermissionsUpdate, Rule, stored_rule

from ...errors import NotFound
from ..services import LoopServices


@dataclass(frozen=True, slots=True)
class AgentPermissionService:
    """Reads and changes the rules of one person at a time. Another person's are not there."""

    services: LoopServices

    async def list(self, principal: str, agent: str | None = None) -> AgentPermissionsList:
        """Return the agents for which a person has rules, or that one of them."""
        found = await self.services.agent_rules.of(principal, agent)
        return AgentPermissionsList(permissions=[self._shown(principal, name, rules) for name, rules in found.items()])

    async def get(self, principal: str, agent: str) -> AgentPermissions:
        """Return the rules for an agent. Raises NotFound for one that people may not choose, unless there are rules of
        the person for it."""
        rules = (await self.services.agent_rules.of(principal, agent)).get(agent, ())
        if not rules:
            self._require_selectable(agent)
        return self._shown(principal, agent, rules)

    async def set(self, principal: str, agent: str, update: AgentPermissionsUpdate) -> AgentPermissions:
        """Replace the rules for an agent. They apply from the next call on, also in a running turn. Raises NotFound."""
        self._require_selectable(agent)
        now = self.services.clock.now_ms()
        new = tuple(stored_rule(rule, now) for rule in update.rules)
        rules = await self.services.agent_rules.change(principal, agent, lambda _: new, now)
        return self._shown(principal, agent, rules)

    async def clear(self, principal: str, agent: str) -> AgentPermissions:
        """Take back all rules for an agent, which may not exist any more. Without rules it stays as it is."""
        await self.get(principal, agent)
        rules = await self.services.agent_rules.change(principal, agent, lambda _: (), self.services.clock.now_ms())
        return self._shown(principal, agent, rules)

    def _require_selectable(self, agent: str) -> None:
        manifest = self.services.authority_resolver.agents.get(agent)
        if manifest is None or not manifest.for_people:
            there_are = ", ".join(one.name for one in self.services.authority_resolver.agents.all() if one.for_people)
            raise NotFound(
                f"there is no agent {agent[:100]} to chat with; there are: {there_are}", code="unknown_agent"
            )

    def _shown(self, principal: str, agent: str, rules: Sequence[Rule]) -> AgentPermissions:
        resolver = self.services.authority_resolver
        manifest = resolver.agents.get(agent)
        return AgentPermissions(
            agent=agent,
            user=principal,
            rules=list(rules),
            project=list(resolver.project.rules),
            manifest=list((manifest.layer.rules if manifest else None) or ()),
        )
