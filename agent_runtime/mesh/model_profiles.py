"""The profile of each model: from the host or the table, with what its refusals have taught."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_common.profiles import profile_of
from agent_common.protocol import ModelCard, Profile
from agent_common.telemetry import logger

from .catalog import ModelCatalog

log = logger(__name__)
MAX_LEARNT = 256
"""Models of which something is remembered; callers choose the names."""


class ModelProfiles:
    """Knows what each model takes and gives."""

    def __init__(self, url: str, catalog: ModelCatalog) -> None:
        self._url = url
        self._catalog = catalog
        self._learnt: dict[str, Profile] = {}

    def profile(self, model: str) -> Profile:
        card = self._catalog.cards.get(model)
        known = card.profile if card is not None and card.profile is not None else None
        base = known or profile_of(self._url, _upstream(card, model))
        return base.updated(self._learnt.get(model))

    def maker(self, model: str) -> str:
        """Return a name of the model and its provider that stays the same, so that what it gave goes back to it."""
        card = self._catalog.cards.get(model)
        provider = card.owned_by if card is not None and card.upstream else None
        return f"{provider or urlsplit(self._url).netloc.rpartition('@')[2]}/{_upstream(card, model)}"

    def learn(self, model: str, lesson: Profile, why: str) -> None:
        """Remember what a refusal has taught, and log the line by which the catalog would say so."""
        if len(self._learnt) >= MAX_LEARNT and model not in self._learnt:
            del self._learnt[next(iter(self._learnt))]
        self._learnt[model] = self._learnt.get(model, Profile()).updated(lesson)
        line = ", ".join(f"{name}: {_yaml(value)}" for name, value in self._learnt[model].stated().items())
        log.warning(
            "the model has refused a request as it was; it is asked otherwise from now on",
            model=model,
            error=why,
            catalog=f"models.{model}.profile: {{{line}}}",
        )


def _upstream(card: ModelCard | None, model: str) -> str:
    return (card.upstream if card is not None else None) or model


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if value == " " else str(value)
