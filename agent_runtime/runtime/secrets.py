"""The secrets that the settings hold, as those who need them want them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from agent_common.redaction import Redactor, url_secrets

from ..settings import Settings
from ..skills import Grants
from ..workspace import Home


def mesh_token(settings: Settings) -> str | None:
    return settings.mesh_token.get_secret_value() if settings.mesh_token else None


def skill_index(settings: Settings) -> str | None:
    return settings.skill_index.get_secret_value() if settings.skill_index else None


def bearer_headers(settings: Settings) -> dict[str, str]:
    token = mesh_token(settings)
    return {"authorization": f"Bearer {token}"} if token else {}


def secrets(settings: Settings) -> list[str]:
    """What must never leave by an export."""
    own = [secret.get_secret_value() for secret in (settings.token, settings.mesh_token) if secret]
    return own + url_secrets(skill_index(settings) or "") + skill_grants(settings).secret_values()


def redactor(settings: Settings, more: Iterable[str] = ()) -> Redactor:
    """Return what takes these secrets out of texts, and `more` of them."""
    return Redactor((*secrets(settings), *more))


def skill_grants(settings: Settings) -> Grants:
    """What the operator lets single plugins have."""
    return Grants(Home(settings.data_dir).data_dir / "skill-grants.json", os.environ)
