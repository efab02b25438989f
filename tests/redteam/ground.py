"""On what ground an attack happens, said once and handed from process to process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

SERVER_USER = 1000
"""Whom the server runs as when it is not root."""


@dataclass(frozen=True, slots=True)
class Ground:
    confinement: Literal["required", "off"] = "required"
    users: Literal["machine", "own"] = "machine"
    """Whether the container's root is the machine's (without what reaches past namespaces) or nobody outside."""
    server: Literal["root", "user"] = "root"
    backend: str = ""
    """The backend that must be in force, with better ones out of the way; empty: the best there is."""
    names: tuple[str, ...] = ()
    """Cases to play; none: all."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields: dict[str, Any] = json.loads(text)
        fields["names"] = tuple(fields.get("names", ()))
        return cls(**fields)


def held(backend: str, server: Literal["root", "user"]) -> Ground:
    """Where commands are held by that backend."""
    return Ground(server=server, backend=backend)


HIDDEN: dict[str, tuple[str, ...]] = {"": (), "bubblewrap": ()}
"""Programs that must be missing, so that a backend is the best there is. One not named here hides bubblewrap."""


def hidden_programs(backend: str) -> tuple[str, ...]:
    return HIDDEN.get(backend, ("/usr/bin/bwrap",))
