"""Read the operator's file of MCP servers, and report all its faults before the start.

Only the operator may write this file, so it must be where no tool can write. It is read once.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from agent_common.mcp_servers import SERVER_KEYS, OAuthConfig, ServerFields, fault_text, object_with_servers
from agent_common.net import HostPatterns

from ...errors import StartError
from .env_substitution import SubstitutedText, substitute
from .other_products import translate_fields

MIN_SECRET_LENGTH = 6
MIN_WORD_LENGTH = 8
"""Shortest secret value, and shortest word of one, in characters, that is hidden in errors."""
MAX_FILE_BYTES = 1024 * 1024
"""Most bytes of the file."""
MAX_SERVERS = 50
IGNORED_KEYS = frozenset({"$schema", "inputs"})
"""Fields of other products that are ignored here."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that is run here as a confined program, and used over its pipes."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    network: HostPatterns | None = None
    """Hosts that it may reach; None means no network."""
    write: bool = False
    """Whether it may write to the workspace, which it can always read."""
    read: tuple[Path, ...] = ()
    """Further folders that it may read."""
    cwd: Path | None = None
    """The folder that it runs in and may read; None means `/`."""
    memory: int = 1024 * 2**20
    """Most bytes of memory that all its processes may use together."""


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that is used over streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    oauth: OAuthConfig | None = field(default=None, repr=False)
    service: str | None = None
    """The host's service by which it is called; None: it is called by its own URL. `url` is the path then."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One configured server."""

    name: str
    target: LocalServer | RemoteServer
    enabled: bool = True
    timeout: float | None = None
    """Seconds that a call may take; None means the limit of other tools."""
    start_timeout: float | None = None
    """Seconds from the start of a connection to the list of tools; None means the same for all."""
    trust_hints: bool = False
    """Whether to trust its statements that a tool only reads, or may be repeated."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that must not appear in a log or an error."""


class ConfigFaults(Exception):
    """All faults of the file, each as "where: what to do"."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def read_servers(
    path: Path, data_dir: Path, environment: Mapping[str, str], *, required: bool = False
) -> tuple[ServerConfig, ...]:
    """Return the servers in this file; none if the file does not exist and is not required. Raises StartError with all
    faults."""
    try:
        about = path.stat()
    except FileNotFoundError:
        if required:
            raise StartError(f"{path}: there is no such file, which AGENT_MCP_FILE names") from None
        return ()
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
    real = path.resolve()
    if any(real.is_relative_to(data_dir / name) for name in ("workspace", "scratch")):
        raise StartError(f"{path}: tools can write there, and would decide which servers run; put it elsewhere")
    if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
        raise StartError(f"{path}: must be a file of at most {MAX_FILE_BYTES // 1024} KiB")
    try:
        content: Any = json.loads(path.read_bytes(), object_pairs_hook=_reject_duplicates)  # noqa: TID251  the operator's
        return parse_servers(content, data_dir, environment)
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error
    except ConfigFaults as faults:
        raise StartError("\n".join(f"{path}: {line}" for line in faults.lines)) from None
    except (ValueError, RecursionError) as error:
        raise StartError(f"{path}: is not JSON, which has no comments and no trailing commas: {error}") from None


def parse_servers(content: Any, data_dir: Path, environment: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the servers in the parsed content of a file. Raises ConfigFaults."""
    listed = _server_entries(content)
    found: list[ServerConfig] = []
    lines: list[str] = []
    for name, about in listed.items():
        try:
            found.append(_parse_server(name, about, data_dir, environment))
        except ConfigFaults as faults:
            lines += [f"server {name[:64]!r}: {line}" for line in faults.lines]
    if lines:
        raise ConfigFaults(lines)
    return tuple(found)


def _server_entries(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ConfigFaults(
            [f'must be an object with the field {SERVER_KEYS[0]}: {{"{SERVER_KEYS[0]}": {{"name": {{...}}}}}}']
        )
    fields = {name: value for name, value in cast("dict[str, Any]", content).items() if name not in IGNORED_KEYS}
    if strangers := [name for name in fields if name not in SERVER_KEYS]:
        raise ConfigFaults(
            [
                f"{name}: no such field; there is {SERVER_KEYS[0]}. Take out what is not about servers"
                for name in strangers
            ]
        )
    if len(fields) > 1:
        raise ConfigFaults([f"give one of {' and '.join(fields)}, not both"])
    if (inner := object_with_servers(fields)) is not fields:
        return _server_entries(inner)
    listed: Any = next(iter(fields.values()), cast("dict[str, Any]", {}))
    if not isinstance(listed, dict):
        raise ConfigFaults([f"{next(iter(fields))}: must be an object, with a server under each name"])
    if len(cast("dict[str, Any]", listed)) > MAX_SERVERS:
        raise ConfigFaults([f"there are more than {MAX_SERVERS} servers"])
    return cast("dict[str, Any]", listed)


def _parse_server(name: str, about: Any, data_dir: Path, environment: Mapping[str, str]) -> ServerConfig:
    if not isinstance(about, dict):
        raise ConfigFaults(["must be an object with command or url"])
    fields = cast("dict[str, Any]", about)
    places = {
        "workspaceFolder": str(data_dir / "workspace"),
        "workspaceFolderBasename": "workspace",
        "userHome": environment.get("HOME", "/nonexistent"),
        "pathSeparator": "/",
        "/": "/",
    }
    ours, lines = translate_fields(fields, places)
    if ours.get("enabled") is False and not ours.keys() - ServerFields.model_fields.keys():
        return ServerConfig(name, LocalServer((), {}), enabled=False)  # its variables need not be set
    filled = substitute(ours, environment)
    lines += filled.missing
    try:
        written = ServerFields.model_validate({"name": name, **filled.fields})
    except ValidationError as error:
        reported = {line.partition(":")[0] for line in lines}  # a missing variable causes further faults
        found = [fault_text(one) for one in error.errors(include_input=False)]
        raise ConfigFaults(
            [*lines, *dict.fromkeys(one for one in found if one.partition(":")[0] not in reported)]
        ) from None
    folders = [("read", folder) for folder in written.read]
    if written.cwd is not None and Path(written.cwd) != data_dir / "workspace":
        folders.append(("cwd", written.cwd))
    lines += [
        f"{field}: {folder} is in the data folder, or contains it; name a folder outside of it"
        for field, folder in folders
        if Path(folder).resolve().is_relative_to(data_dir) or data_dir.is_relative_to(Path(folder).resolve())
    ]
    if lines:
        raise ConfigFaults(lines)
    return ServerConfig(
        name,
        _local(written) if written.command is not None else _remote(written),
        enabled=written.enabled,
        timeout=written.timeout_ms / 1000 if written.timeout_ms else None,
        start_timeout=written.start_timeout_ms / 1000 if written.start_timeout_ms else None,
        trust_hints=written.trust_hints,
        secrets=_hidden_values(written, filled),
    )


def _local(fields: ServerFields) -> LocalServer:
    hosts = ["*"] if fields.network is True else fields.network or []
    return LocalServer(
        fields.argv,
        fields.env,
        HostPatterns.from_patterns(hosts) if hosts else None,
        write=fields.write,
        read=tuple(Path(os.path.normpath(folder)) for folder in fields.read),
        cwd=None if fields.cwd is None else Path(os.path.normpath(fields.cwd)),
        memory=fields.memory_mb * 2**20,
    )


def _remote(fields: ServerFields) -> RemoteServer:
    headers = {name.lower(): value for name, value in fields.headers.items()}
    return RemoteServer(fields.url or fields.path or "/", headers, fields.oauth, fields.service)


def _hidden_values(fields: ServerFields, filled: SubstitutedText) -> tuple[str, ...]:
    """Return the secret values, longest first, so that a value is hidden as a whole and not in parts."""

    def all_of_them() -> Iterator[str]:
        yield from filled.values
        for value in (*fields.env.values(), *fields.headers.values()):
            yield value
            yield from (word for word in value.split() if len(word) >= MIN_WORD_LENGTH)
        if fields.oauth is not None:
            yield fields.oauth.refresh_token or ""
            yield fields.oauth.client_secret or ""

    return tuple(sorted({one for one in all_of_them() if len(one) >= MIN_SECRET_LENGTH}))


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigFaults([f"{twice}: is there twice"])
    return found
