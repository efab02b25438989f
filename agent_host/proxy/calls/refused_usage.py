"""Models that refuse `stream_options`, which the host adds to streams so that their usage is reported."""

from __future__ import annotations

from dataclasses import replace

from pydantic_core import to_json

from agent_common.json_reader import JsonLimits, read_json
from agent_common.profiles import lesson_of
from agent_common.telemetry import logger

from ..catalog.catalog import CatalogModel
from ..json_access import as_object
from ..providers import ProviderCall
from .fallbacks import Attempt
from .relay import ModelRefusal

log = logger(__name__)
_NAME = "stream_options"
_ADDED = {"include_usage": True}


class RefusedUsage:
    """Learns from the refusals of all agents' calls which models are not to be asked for the usage of streams."""

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._models: set[str] = set()

    def __contains__(self, model: CatalogModel) -> bool:
        return model.name in self._models

    def amend(self, attempt: Attempt, refusal: ModelRefusal) -> ProviderCall | None:
        """Return the call without what the host has added, if the refusal names it. Other members are the agent's own,
        also within `stream_options`."""
        lesson = lesson_of(refusal.status, refusal.report, attempt.model.profile)
        if lesson is None or lesson.stream_options is not False:
            return None
        payload = as_object(read_json(attempt.call.content, self._limits))
        if payload.pop(_NAME, None) != _ADDED:
            return None
        return replace(attempt.call, content=to_json(payload))

    def remember(self, attempt: Attempt, refusal: ModelRefusal) -> None:
        """Remember for the model what it has refused, once it has taken the call without. Nothing is learned from a
        request whose own values have the name, since the refusal may quote them."""
        model = attempt.model
        if model in self or attempt.call.content.count(_NAME.encode()) != 1:
            return
        self._models.add(model.name)
        log.warning(
            "the model refuses stream_options; its usage is estimated from now on",
            model=model.name,
            error=refusal.report.message,
            catalog=f"models.{model.name}.profile: {{stream_options: false}}",
        )
