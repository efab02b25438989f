"""Load the services from the YAML file that MESH_SERVICES names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agent_common.errors import ToolFailure
from agent_common.net import Url, parse_url

from ..errors import InvalidRequest, StartError
from ..secrets import CommandSource, FileSource, SecretSource, checked_name
from .catalog import (
    BasicCredential,
    Credential,
    HeaderCredential,
    OAuthCredential,
    QueryCredential,
    Rate,
    Service,
    ServiceCatalog,
)
from .paths import PathGlobs

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_RATE = re.compile(r"([1-9][0-9]{0,6})/(second|minute|hour)")
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _OAuth(_Entry):
    token_url: str
    client_id: str = Field(min_length=1)
    scopes: list[str] = Field(default_factory=list[str])
    client_auth: Literal["basic", "body"] = "basic"


class _CredentialEntry(_Entry):
    secret: str = Field(pattern=_NAME)
    header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
    value: str | None = Field(default=None, pattern=r"^[\x20-\x7e]*\{secret\}[\x20-\x7e]*$")
    query: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._~-]+$")
    basic: str | None = Field(default=None, pattern=r"^[^:\x00-\x1f\x7f]*$")
    oauth: _OAuth | None = None

    @model_validator(mode="after")
    def _one_way(self) -> _CredentialEntry:
        if sum(one is not None for one in (self.header, self.query, self.basic, self.oauth)) != 1:
            raise ValueError("name one way to send it: header, query, basic or oauth")
        if self.value is not None and self.header is None:
            raise ValueError("value belongs to header")
        return self


class _SecretEntry(_Entry):
    file: Path | None = None
    command: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> _SecretEntry:
        if (self.file is None) == (self.command is None):
            raise ValueError("name one source: file or command")
        return self


class _ServiceEntry(_Entry):
    base_url: str
    credential: _CredentialEntry | None = None
    methods: list[Method] = Field(default=["GET", "HEAD"], min_length=1)
    paths: list[str] = Field(default=["/**"], min_length=1)
    agents: list[str] | None = None
    teams: list[str] | None = None
    rate: str | None = None
    private: bool = False
    timeout: float = Field(default=60, gt=0, le=600, allow_inf_nan=False)

    @field_validator("paths")
    @classmethod
    def _globs(cls, value: list[str]) -> list[str]:
        PathGlobs.from_texts(value)
        return value

    @field_validator("rate")
    @classmethod
    def _rates(cls, value: str | None) -> str | None:
        if value is not None and not _RATE.fullmatch(value):
            raise ValueError("must be a number of calls for a second, a minute or an hour, as in 60/minute")
        return value

    @model_validator(mode="after")
    def _urls(self) -> _ServiceEntry:
        _checked_url(self.base_url, "base_url", private=self.private)
        if self.credential is not None and self.credential.oauth is not None:
            _checked_url(self.credential.oauth.token_url, "credential.oauth.token_url", private=self.private)
        return self


class _File(_Entry):
    services: dict[str, _ServiceEntry] = Field(default_factory=dict)
    secrets: dict[str, _SecretEntry] = Field(default_factory=dict)


def load_services(path: Path | None) -> ServiceCatalog:
    """Return the services of the file; without one there are none. Raises StartError with all faults, one a line."""
    if path is None:
        return ServiceCatalog({}, {})
    try:
        content: Any = yaml.safe_load(path.read_text("utf-8"))
        file = _File.model_validate(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StartError(f"MESH_SERVICES: cannot read {path}: {error}") from error
    except ValidationError as error:
        faults = [f"{_where(one['loc'])}: {one['msg'].removeprefix('Value error, ')}" for one in error.errors()]
        raise StartError("\n".join(f"MESH_SERVICES: {path}: {fault}" for fault in faults)) from None
    faults = _bad_names("services", file.services) + _bad_names("secrets", file.secrets)
    if faults:
        raise StartError("\n".join(f"MESH_SERVICES: {path}: {fault}" for fault in faults))
    services = {name: _service(name, entry) for name, entry in file.services.items()}
    return ServiceCatalog(services, {name: _source(entry, path) for name, entry in file.secrets.items()})


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the file"


def _bad_names(kind: str, entries: Mapping[str, object]) -> list[str]:
    faults: list[str] = []
    for name in entries:
        try:
            checked_name(name)
        except InvalidRequest as error:
            faults.append(f"{kind}: {error}")
    return faults


def _checked_url(text: str, field: str, *, private: bool) -> Url:
    try:
        url = parse_url(text)
    except ToolFailure as error:
        raise ValueError(f"{field}: {error}") from None
    if urlsplit(text).query:
        raise ValueError(f"{field}: must have no query")
    if url.scheme != "https" and not private:
        raise ValueError(f"{field}: must begin with https://, unless the service is `private: true`")
    return url


def _service(name: str, entry: _ServiceEntry) -> Service:
    return Service(
        name=name,
        base_url=parse_url(entry.base_url),
        credential=_credential(entry.credential) if entry.credential else None,
        methods=tuple(entry.methods),
        paths=PathGlobs.from_texts(entry.paths),
        agents=frozenset(entry.agents) if entry.agents is not None else None,
        teams=frozenset(entry.teams) if entry.teams is not None else None,
        rate=_rate(entry.rate) if entry.rate else None,
        private=entry.private,
        timeout=entry.timeout,
    )


def _credential(entry: _CredentialEntry) -> Credential:
    if entry.header is not None:
        form = entry.value or ("Bearer {secret}" if entry.header.lower() == "authorization" else "{secret}")
        return HeaderCredential(entry.secret, entry.header.lower(), form)
    if entry.query is not None:
        return QueryCredential(entry.secret, entry.query)
    if entry.oauth is not None:
        scope = " ".join(entry.oauth.scopes) or None
        in_body = entry.oauth.client_auth == "body"
        token_url = parse_url(entry.oauth.token_url)
        return OAuthCredential(entry.secret, token_url, entry.oauth.client_id, scope, in_body)
    return BasicCredential(entry.secret, entry.basic or "")


def _rate(text: str) -> Rate:
    calls, _, unit = text.partition("/")
    return Rate(int(calls), _SECONDS[unit])


def _source(entry: _SecretEntry, path: Path) -> SecretSource:
    if entry.command is not None:
        return CommandSource(tuple(entry.command))
    assert entry.file is not None  # noqa: S101  checked by the entry
    return FileSource(path.parent / entry.file.expanduser())
