"""The secrets that the settings hold, as those who need them want them."""

from __future__ import annotations

from ..settings import Settings


def mesh_token(settings: Settings) -> str | None:
    return settings.mesh_token.get_secret_value() if settings.mesh_token else None


def bearer(settings: Settings) -> dict[str, str]:
    token = mesh_token(settings)
    return {"authorization": f"Bearer {token}"} if token else {}


def secrets(settings: Settings) -> list[str]:
    """What must never leave by an export."""
    return [secret.get_secret_value() for secret in (settings.token, settings.mesh_token) if secret]
