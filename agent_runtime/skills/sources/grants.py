"""What the operator lets single plugins have: secrets from the server's environment, and hosts to reach.

A grant holds for the exact code that it was given to, helpers included. An agent that changes a plugin, or a person who
does, loses it until the operator has looked at the new code and allows it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator

from ...errors import StartError, ToolFailure
from .granted_hosts import GrantedHosts
from .source import PluginSource

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_RESERVED = re.compile(
    r"(AGENT|MESH|LD|PYTHON|BASH|DYLD|GLIBC|MALLOC)_?.*|PATH|HOME|IFS|ENV|SHELL|.*_PROXY", re.IGNORECASE
)
"""The server's own settings, and variables that decide what code a process runs or where it connects."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    sha256: str
    packages: str | None = None
    """Digest of the installed packages that were allowed; None: the plugin had no dependencies."""
    secrets: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @field_validator("secrets")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _NAME.fullmatch(name) or _RESERVED.fullmatch(name):
                raise ValueError(f"{name[:100]!r} cannot be a secret of a skill; take another variable's name")
        return names

    @field_validator("hosts")
    @classmethod
    def _patterns(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        GrantedHosts.from_grants(hosts)
        return hosts


_ENTRIES_ADAPTER = TypeAdapter(dict[str, _Entry], config=ConfigDict(defer_build=True))


@dataclass(frozen=True, slots=True)
class Grant:
    """What the workers of one build get."""

    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    hosts: GrantedHosts | None = None
    """Hosts and ports they may reach; None: they have no network."""


class Grants:
    """The grants in one file, by plugin: `{"weather.py": {"sha256": ..., "secrets": [...], "hosts": [...]}}`. It is
    read again for every build."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment

    def grant_for(self, source: PluginSource, environment: Path | None = None) -> Grant:
        """Return what a build with these installed packages may have. Raises ToolFailure if its code, or that of a
        package, is not the code that was allowed."""
        entry = self._read_entries().get(source.file)
        if entry is None:
            return Grant()
        if entry.sha256 != source.build_digest:
            raise ToolFailure(
                f"{source.file} is not the code that the operator has allowed secrets or hosts, or the files beside it"
                f" are not; look at them, then run `agent-runtime skill allow {source.file} ...` again",
                kind="denied",
            )
        if (entry.packages or environment is not None) and entry.packages != packages_digest(environment):
            raise ToolFailure(
                f"{source.file}: its dependencies are not the packages that the operator has allowed secrets or hosts;"
                f" look at them, then run `agent-runtime skill allow {source.file} ...` again",
                kind="denied",
            )
        missing = [name for name in entry.secrets if not self._environment.get(name)]
        if missing:
            raise ToolFailure(f"secrets: the server's environment has no {', '.join(missing)}", kind="unavailable")
        env = {name: self._environment[name] for name in entry.secrets}
        return Grant(env, GrantedHosts.from_grants(entry.hosts) if entry.hosts else None)

    def has_grant(self, file: str) -> bool:
        return file in self._read_entries()

    def secret_values(self) -> list[str]:
        """Return all secrets that are granted: they must never leave by an export or a log."""
        names = {name for entry in self._read_entries().values() for name in entry.secrets}
        return [self._environment[name] for name in sorted(names) if self._environment.get(name)]

    def allow(
        self, source: PluginSource, secrets: Sequence[str], hosts: Sequence[str], environment: Path | None = None
    ) -> None:
        """Write the grant of a plugin with these installed packages in place of the one before; without secrets and
        hosts, remove it. Raises StartError that names the fault."""
        entries = dict(self._read_entries())
        entries.pop(source.file, None)
        if secrets or hosts:
            try:
                entries[source.file] = _Entry(
                    sha256=source.build_digest,
                    packages=packages_digest(environment) if environment is not None else None,
                    secrets=tuple(secrets),
                    hosts=tuple(hosts),
                )
            except ValidationError as error:
                raise StartError(
                    "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
                ) from None
        text = json.dumps(_ENTRIES_ADAPTER.dump_python(entries, mode="json"), indent=2) + "\n"
        with tempfile.NamedTemporaryFile("w", dir=self._file.parent, prefix=self._file.name, delete=False) as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        os.replace(new.name, self._file)

    def _read_entries(self) -> Mapping[str, _Entry]:
        try:
            return _ENTRIES_ADAPTER.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            raise StartError(f"{self._file} cannot be used: {error}") from None


def packages_digest(environment: Path | None) -> str | None:
    """Return the digest of all files of installed packages, which another version or another build changes."""
    if environment is None:
        return None
    total = hashlib.sha256()
    for path in sorted(path for path in environment.rglob("*") if path.is_file()):
        name = os.fsencode(path.relative_to(environment))
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        total.update(b"%d %b " % (len(name), name) + content)
    return total.hexdigest()
