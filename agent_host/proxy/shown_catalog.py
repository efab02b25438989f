"""The catalog of the running host as a file, for `agent-host models`: another shell may have other settings.

It has no key, and counts only while a host holds the lock of the data folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .catalog.catalog import CatalogModel, HostCatalog

FILE_NAME = "models.json"


class ShownModel(BaseModel):
    """What is shown of one model. None means unknown."""

    model_config = ConfigDict(frozen=True)

    name: str
    provider: str
    provider_url: str | None
    upstream: str
    api: str = "chat"
    context_limit: int | None
    max_output_tokens: int | None
    prices: tuple[float | None, float | None]
    """US dollars for a million tokens, in and out."""
    capabilities: list[str]
    profile: dict[str, Any] = Field(default_factory=dict)


class ShownCatalog(BaseModel):
    """All models of a host, in the order of its catalog."""

    models: list[ShownModel]

    @classmethod
    def of(cls, catalog: HostCatalog) -> ShownCatalog:
        return cls(models=[_shown(catalog, model) for model in catalog.models.values()])

    @classmethod
    def of_running_host(cls, data_dir: Path) -> ShownCatalog | None:
        """Return the catalog of the host that uses the folder; None if there is none, or it is of another version."""
        try:
            return cls.model_validate_json((data_dir / FILE_NAME).read_bytes()) if _is_used(data_dir) else None
        except (OSError, ValidationError):
            return None

    def write(self, data_dir: Path) -> None:
        """Write the file; the process must hold the lock of the folder."""
        new = data_dir / f"{FILE_NAME}.new"
        with open(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(self.model_dump_json().encode())
        new.replace(data_dir / FILE_NAME)


def _shown(catalog: HostCatalog, model: CatalogModel) -> ShownModel:
    return ShownModel(
        name=model.name,
        provider=model.provider,
        provider_url=catalog.providers[model.provider].shown_url or None,
        upstream=model.upstream,
        api=model.api,
        context_limit=model.context_limit,
        max_output_tokens=model.max_output_tokens,
        prices=(model.pricing.input, model.pricing.output) if model.pricing else (None, None),
        capabilities=list(model.capabilities),
        profile=dict(model.profile.stated()),
    )


def _is_used(data_dir: Path) -> bool:
    """Whether a host holds the lock of the folder."""
    with contextlib.ExitStack() as stack:
        lock = os.open(data_dir / "host.lock", os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
