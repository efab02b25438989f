"""Messages between agents that were cancelled before they came."""

from __future__ import annotations

MOST_WITHDRAWN = 8192
"""Messages that are remembered."""


class WithdrawnMessages:
    """They must not begin any more. In memory, because a message that its cancellation has overtaken is on its way to
    this process and dies with it. Beyond `MOST_WITHDRAWN` the asker with the most of them has its oldest forgotten."""

    def __init__(self) -> None:
        self._by_asker: dict[str, dict[tuple[str, str], None]] = {}
        """Agents and ids of the work that they must not get, the oldest first."""

    def __len__(self) -> int:
        return sum(map(len, self._by_asker.values()))

    def has(self, asker: str, agent_id: str, request_id: str) -> bool:
        return (agent_id, request_id) in self._by_asker.get(asker, {})

    def add(self, asker: str, agent_id: str, request_id: str) -> None:
        self._by_asker.setdefault(asker, {})[agent_id, request_id] = None
        if len(self) > MOST_WITHDRAWN:
            most = max(self._by_asker, key=lambda one: len(self._by_asker[one]))
            self.remove(most, *next(iter(self._by_asker[most])))

    def remove(self, asker: str, agent_id: str, request_id: str) -> None:
        """Forget a message; no effect if it is not among them."""
        mine = self._by_asker.get(asker, {})
        mine.pop((agent_id, request_id), None)
        if not mine:
            self._by_asker.pop(asker, None)
