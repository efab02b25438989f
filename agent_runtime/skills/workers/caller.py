"""Carry out what a skill asks for with the rights and meters of the agent that called it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, Protocol

from agent_common.protocol import is_object

from ...errors import MeshUnavailable
from ...ports import EgressMeter, Mesh, ModelMeter, ToolContext

Method = Callable[..., Awaitable[Any]]


class MeshTools(Protocol):
    """Answers the other methods of `mesh_client` with the rights of the agent of the context."""

    @property
    def names(self) -> Sequence[str]:
        """The methods that are offered."""
        ...

    async def run(self, what: str, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Answer one of these. Raises MeshUnavailable, and MeshRefused if it is not allowed."""
        ...


class CallOrigin:
    """The call that a worker is carrying out; a worker has at most one."""

    def __init__(self, mesh: Mesh, tools: MeshTools | None) -> None:
        self._mesh = mesh
        self._tools = tools
        self._context: ToolContext | None = None
        self._egress: EgressMeter | None = None
        self._model_calls: ModelMeter | None = None

    def set_meters(self, context: ToolContext | None) -> None:
        """Charge the worker's egress and model calls to this call until the next one: also those made while the plugin
        is imported, and those still under way after the call has ended. None charges nothing."""
        self._egress = context.egress if context is not None else None
        self._model_calls = context.model_meter if context is not None else None

    @contextmanager
    def for_call(self, context: ToolContext | None) -> Generator[None]:
        """Make this the worker's call while the block lasts."""
        self._context = context
        self.set_meters(context)
        try:
            yield
        finally:
            self._context = None

    async def chat(self, /, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Answer `mesh_client.chat`. Raises MeshUnavailable and ToolFailure."""
        return await self._mesh.chat(messages, self._model_calls, **options)

    async def embed(self, /, texts: Sequence[str], *, model: str | None = None) -> Any:
        """Answer `mesh_client.embed`. Raises MeshUnavailable and ToolFailure."""
        return await self._mesh.embed(texts, self._model_calls, model=model)

    async def openai(self, /, path: str, body: Any) -> Any:
        """Answer a request of `mesh_client.openai()`. Raises MeshUnavailable and ToolFailure."""
        return await self._mesh.request(path, body, self._model_calls)

    async def answer(self, what: Any, arguments: Any) -> Any:
        """Answer any method of `mesh_client`. Raises MeshUnavailable, for what is no such request too, and
        ToolFailure."""
        models: Mapping[str, Method] = {"chat": self.chat, "embed": self.embed, "openai": self.openai}
        if not is_object(arguments):
            raise MeshUnavailable(f"{what}: the arguments must be an object")
        if isinstance(what, str) and what in models:
            _check_arguments(what, models[what], arguments)
            return await models[what](**arguments)
        names = self._tools.names if self._tools is not None else ()
        if self._tools is None or what not in names:
            offered = ", ".join(sorted((*models, *names)))
            raise MeshUnavailable(f"this host does not offer {what}; there are: {offered}")
        if self._context is None:
            raise MeshUnavailable(f"{what} is offered to the calls of an agent alone, and this is a trial")
        return await self._tools.run(what, arguments, self._context)

    def count_egress(self, size: int) -> None:
        """Count bytes that are about to be sent. Raises ToolFailure when the limit is reached."""
        if self._egress is not None:
            self._egress.count_sent(size)


def _check_arguments(what: str, method: Method, arguments: Mapping[str, Any]) -> None:
    """Raise MeshUnavailable if the method does not take these arguments."""
    try:
        signature(method).bind(**arguments)
    except TypeError as error:
        raise MeshUnavailable(f"{what}: {error}") from None
