"""For whom a worker works: what its skill may look for and send out is what the agent of that call may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import MeshUnavailable
from ...ports import EgressMeter, Mesh, ModelMeter, ToolContext

SkillSearch = Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]
"""Finds pages for the arguments of web_search, within what the agent of the context may. Raises MeshUnavailable."""


class CallOrigin:
    """The call that a worker is at, if it is at one: it takes one at a time."""

    def __init__(self, mesh: Mesh, search: SkillSearch | None) -> None:
        self._mesh, self._search = mesh, search
        self._context: ToolContext | None = None
        self._egress: EgressMeter | None = None
        self._model_calls: ModelMeter | None = None

    def set_meters(self, context: ToolContext | None) -> None:
        """Count for this call what the worker sends and what it asks models, until it works for another one: also what
        a plugin does while it is imported, and what is still on its way when a call has ended."""
        self._egress = context.egress if context is not None else None
        self._model_calls = context.model_meter if context is not None else None

    @contextmanager
    def for_call(self, context: ToolContext | None) -> Generator[None]:
        """Works for this one while the block lasts."""
        self._context = context
        self.set_meters(context)
        try:
            yield
        finally:
            self._context = None

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """What `mesh_client.chat` gives. Raises MeshUnavailable and ToolFailure."""
        return await self._mesh.chat(messages, self._model_calls, **options)

    async def embed(self, texts: Sequence[str], **options: Any) -> Any:
        """What `mesh_client.embed` gives. Raises MeshUnavailable and ToolFailure."""
        return await self._mesh.embed(texts, self._model_calls, **options)

    async def search(self, **arguments: Any) -> Any:
        """What `mesh_client.search` gives. Raises MeshUnavailable."""
        if self._search is None or self._context is None:
            raise MeshUnavailable("search is offered to the calls of an agent alone, and this is a trial")
        return await self._search(arguments, self._context)

    def count_egress(self, size: int) -> None:
        """Counts bytes that are about to leave. Raises ToolFailure when they may not."""
        if self._egress is not None:
            self._egress.count_sent(size)
