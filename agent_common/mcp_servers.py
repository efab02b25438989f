"""The form of the operator's file of MCP servers: the fields of a server, those that other products have as well, and
our own permissions. The runtime reads the file, and the command `agent` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from agent_common.net import HostPatterns

SERVER_KEYS = ("mcpServers", "servers", "mcp", "context_servers")
"""Names of the field with the servers: in most products, VS Code, OpenCode and Zed."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE = re.compile(r"[\x20-\x7e]*")
_OWN_HEADERS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "content-type", "accept", "upgrade"}
)
MAX_TIMEOUT_MS = 3_600_000
MAX_START_TIMEOUT_MS = 600_000
TYPES = {"local": "command", "stdio": "command", "remote": "url", "http": "url", "streamable-http": "url"}
"""The values of `type`, and the field that each requires; `service` stands for `url`."""
_OF_PROGRAMS = ("args", "env", "network", "write", "read", "cwd", "memory_mb")
_FOREIGN = {
    "command": ("headers", "oauth", "path"),
    "url": (*_OF_PROGRAMS, "path"),
    "service": (*_OF_PROGRAMS, "oauth"),
}
"""The field that makes a server local or remote, and those that do not go with it."""
_TYPE_NAMES = ("str", "bool", "list[str]")
"""Type names in the locations of pydantic's faults, which are left out of the messages."""
SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _reject_null(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain null bytes")
    return text


def _check_url(url: str) -> str:
    url = url.strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
        parts = urlsplit("")
    if not good or not _LINE.fullmatch(url):
        raise ValueError("must be http:// or https:// with a host, as in https://mcp.example.org/mcp")
    if " " in url:
        raise ValueError("must not have blanks; write %20 for one in the path")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user or a password; put credentials into headers")
    if parts.fragment:
        raise ValueError("must not have a fragment")
    return url


Text = Annotated[str, AfterValidator(_reject_null), Field(max_length=32_768)]
Url = Annotated[str, AfterValidator(_check_url), Field(max_length=4096)]


class OAuthConfig(BaseModel):
    """How to get an access token when the server asks for one: with a refresh token, or with the client's own
    credentials."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)

    token_url: Url
    client_id: str = Field(min_length=1, max_length=4096)
    client_secret: str | None = Field(default=None, min_length=1, max_length=4096, repr=False)
    token_endpoint_auth_method: Literal["client_secret_post", "client_secret_basic"] = "client_secret_post"  # noqa: S105  a name
    refresh_token: str | None = Field(default=None, min_length=1, max_length=16_384, repr=False)
    scope: str | None = Field(default=None, min_length=1, max_length=4096)
    resource: Url | Literal[False] | None = None

    @property
    def is_basic(self) -> bool:
        return self.token_endpoint_auth_method == "client_secret_basic"  # noqa: S105  a name

    @model_validator(mode="after")
    def _can_be_used(self) -> OAuthConfig:
        if self.client_secret is None and self.refresh_token is None:
            raise ValueError("give refresh_token, or client_secret for a client that acts for itself")
        if self.client_secret is None and self.is_basic:
            raise ValueError("token_endpoint_auth_method: client_secret_basic needs client_secret")
        return self


class ServerFields(BaseModel):
    """A server: local if it has `command`, remote if it has `url`, or `service` for one that the host calls."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)

    name: str
    type: str | None = None
    command: str | list[str] | None = None
    args: list[Text] = Field(default_factory=list[str], max_length=200)
    env: dict[str, Text] = Field(default_factory=dict[str, str], max_length=200)
    url: Url | None = None
    service: str | None = None
    path: str | None = Field(default=None, max_length=1000)
    headers: dict[str, str] = Field(default_factory=dict[str, str], max_length=100)
    oauth: OAuthConfig | None = None
    enabled: bool = True
    timeout_ms: int | None = Field(default=None, ge=100, le=MAX_TIMEOUT_MS)
    start_timeout_ms: int | None = Field(default=None, ge=100, le=MAX_START_TIMEOUT_MS)
    network: bool | list[str] = False
    write: bool = False
    read: list[str] = Field(default_factory=list[str], max_length=20)
    cwd: str | None = None
    memory_mb: int = Field(default=1024, ge=64)
    trust_hints: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        program = [self.command] if isinstance(self.command, str) else self.command or []
        return (*program, *self.args)

    @field_validator("name")
    @classmethod
    def _short(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", value):
            raise ValueError("must be 1 to 40 letters, digits, _ or -; it begins the names of the server's tools")
        return value

    @field_validator("command")
    @classmethod
    def _a_program(cls, value: Any) -> Any:
        words = [value] if isinstance(value, str) else value
        if words is not None and (not words or not words[0].strip() or any("\0" in word for word in words)):
            raise ValueError("must name a program, without null bytes")
        if isinstance(value, str) and re.search(r"\s", value):
            raise ValueError("must be the program alone; put its arguments into args")
        return value

    @field_validator("service")
    @classmethod
    def _a_service(cls, value: str | None) -> str | None:
        if value is not None and not SERVICE_NAME.fullmatch(value):
            raise ValueError("must be the name of a service of the host, as in its services.yaml")
        return value

    @field_validator("path")
    @classmethod
    def _a_path(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"/[\x21\x22\x24-\x7e]*", value):
            raise ValueError("must be a path that begins with /, as in /mcp")
        return value

    @field_validator("env")
    @classmethod
    def _names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name[:64]!r} cannot be the name of a variable")
        return value

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("mcp-"):
                raise ValueError(f"{name[:64]!r} cannot be set here")
            if not _LINE.fullmatch(text):
                raise ValueError(f"the value of {name} must be one line of plain text")
        return value

    @field_validator("network")
    @classmethod
    def _hosts(cls, value: bool | list[str]) -> bool | list[str]:
        if not isinstance(value, bool):
            HostPatterns.from_patterns(value)
        return value

    @field_validator("read", "cwd")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        for folder in [value] if isinstance(value, str) else value or ():
            if not folder.startswith("/") or "\0" in folder:
                raise ValueError(f"{folder[:100]!r} must be an absolute path")
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> ServerFields:
        if [self.command, self.url, self.service].count(None) != 2:
            elsewhere = "url, for a server elsewhere, and service, for one that the host calls"
            raise ValueError(f"give exactly one of command, for a program run here, {elsewhere}")
        if self.type is not None:
            self._check_type(self.type)
        kind = next(name for name in _FOREIGN if getattr(self, name) is not None)
        if wrong := [name for name in _FOREIGN[kind] if name in self.model_fields_set]:
            raise ValueError(f"{', '.join(wrong)}: not for a server with {kind}")
        setter = "oauth" if self.oauth is not None else "the host" if self.service is not None else None
        if setter is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError(f"headers: leave out Authorization, which {setter} sets")
        return self

    def _check_type(self, kind: str) -> None:
        if kind not in TYPES:
            older = "; HTTP with SSE is not spoken: most such servers have streamable HTTP too, often at /mcp"
            raise ValueError(f"type: must be one of {', '.join(TYPES)}{older if kind == 'sse' else ''}")
        if getattr(self, TYPES[kind]) is None and not (TYPES[kind] == "url" and self.service is not None):
            raise ValueError(f"type: {kind} needs {TYPES[kind]}")


def object_with_servers(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object that has one of SERVER_KEYS: the content of the file, or its `mcp`, as in the settings of VS
    Code."""
    inner: Any = content.get("mcp")
    if isinstance(inner, dict) and "servers" in inner and "command" not in inner["servers"]:
        return cast("dict[str, Any]", inner)
    return content


def fault_text(error: Any) -> str:
    """Return one of the faults that pydantic found in a server as "field: what to do"."""
    path = [part for part in error["loc"] if part not in _TYPE_NAMES]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = OAuthConfig.model_fields if str(error["loc"][0]) == "oauth" else ServerFields.model_fields
        text = f"no such field; there are: {', '.join(one for one in known if one != 'name')}"
    return f"{where}: {text}" if where else text
