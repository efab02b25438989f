"""Settings of the runtime: environment variables with the prefix `AGENT_`.

Each field's docstring is its line in `--help` and its row in `docs/reference/settings.md`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from agent_common.home_folder import below_home
from agent_common.net import check_authorities, checked_bearer, parse_endpoint, parse_http_url
from agent_common.protocol import AGENT_PREFIX, AgentSettings
from agent_common.settings import SettingsLoader
from agent_common.telemetry import LogFormat

PREFIX = AGENT_PREFIX
DEFAULT_CONTEXT = 128_000
"""Tokens of a window of unknown size."""
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


IMAGE_DATA_DIR = Path("/data")
"""Where an image has its volume."""


def _default_data_dir() -> Path:
    if os.access(IMAGE_DATA_DIR, os.R_OK | os.W_OK | os.X_OK):
        return IMAGE_DATA_DIR
    return below_home(".local/share/agent-runtime", "AGENT_DATA_DIR")


def passed_over(image: Path, used: Path) -> str | None:
    """Return what an operator must know if the folder of the image is there and another one is used."""
    if used == image or not image.is_dir():
        return None
    return (
        f"{image} cannot be written by user {os.geteuid()}, so {used} is used: what was kept in {image} is not seen. "
        "Give the folder to this user, or name one with AGENT_DATA_DIR"
    )


class Settings(AgentSettings):
    """The settings of a runtime, which do not change while it runs; those of `AgentSettings` a caller may choose."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)

    id: str = Field(default="agent", pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,99}$")
    """Name of this agent."""
    host: str = "127.0.0.1"
    """Address the server listens on; beyond loopback it needs AGENT_TOKEN. Unset, or `localhost`, it is `::1` too."""
    port: int = Field(default=8400, ge=0, le=65535)
    """Port the server listens on; 0 takes a free one."""
    socket: Path | None = None
    """Unix socket the server listens on too, for callers on this machine; they need AGENT_TOKEN all the same."""
    data_dir: Path = Field(default_factory=_default_data_dir)
    """Folder for the database, the workspace and the skills."""
    backup_minutes: float = Field(default=60, ge=0, le=525_600)
    """Minutes between backups of the database, of which {AGENT_DATA_DIR}/backups keeps the newest two; 0 makes none."""
    daily_log_days: int = Field(default=30, ge=0, le=36_500)
    """Days that the daily log of turns is kept (docs/reference/workspace.md); 0 writes none."""
    retention_days: int = Field(default=90, ge=0, le=36_500)
    """Days without activity after which a session is deleted with all that belongs to it, at least 7; 0: never
    (docs/reference/storage.md)."""
    retention_rows: int = Field(default=5_000_000, ge=0)
    """Parts of messages that are kept; beyond them the sessions that were idle for longest are deleted; 0 keeps all."""
    copies_mb: int = Field(default=10_240, ge=0)
    """MiB to which forks and imports of sessions may let the database grow; a user's own may take as much as they leave
    free. 0: as the disk has room."""
    token: SecretStr | None = Field(default=None, min_length=1, validate_default=True)
    """Bearer token callers must send; none means loopback only."""
    mesh_url: str = "http://127.0.0.1:8420"
    """The host's mesh: `http://`, `https://`, `http+unix://%2Frun%2Fmesh.sock`, or `http+vsock://2:8420` in a VM."""
    mesh_token: SecretStr | None = Field(default=None, min_length=1)
    """Bearer token for the mesh and the model endpoint."""
    egress_url: str | None = None
    """Forward proxy for web_fetch, which gets the mesh's token (a URL as for AGENT_MESH_URL, but not `https://`); unset
    the runtime connects directly."""
    ca_file: Path | None = None
    """PEM file with certificate authorities to trust beside the public ones, such as a company's own, in every TLS
    connection. SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE replace the public ones."""
    llm_base_url: str | None = None
    """OpenAI-compatible endpoint, with the same kinds of URL; unset it is {AGENT_MESH_URL}/v1."""
    skills_dir: Path | None = None
    """Folder of @skill plugins; unset it is {AGENT_DATA_DIR}/skills."""
    mcp_file: Path | None = None
    """JSON file that names MCP servers (docs/how-to/mcp.md); unset it is {AGENT_DATA_DIR}/mcp.json, which need not
    exist."""
    skill_paths: tuple[Path, ...] | None = None
    """Further folders of skill packages (docs/how-to/skill-packages.md), with a colon between two of them."""
    skill_index: SecretStr | None = Field(default=None, min_length=1)
    """Index of Python packages for dependencies of skills (PEP 503), whose URL may hold a password; unset it is uv's
    own default."""
    watchdog: str = "reference"
    """Rules for calls of tools: the reference policy, `off`, or the path of a policy file (docs/reference/tools.md)."""
    mediation_url: str | None = None
    """The host's mediation listener: vsock://2:2048, unix:/path or tcp://host:port; unset there is no channel."""
    mediation_required: bool = False
    """Whether the channel is required: without it no call has side effects, and mutating routes answer only callers on
    loopback."""
    mediation_key_file: Path | None = None
    """File with the key that answers the host's challenge; read at each attachment."""
    mediation_dialect: Literal["strict", "loose"] = "strict"
    """`loose` speaks the dialect of microagent's mediation guide, and takes work of unverified principals: for
    development."""
    mediation_api: bool = False
    """Whether the host may reach this agent's HTTP API over the channel; needs AGENT_TOKEN. For agents that no fleet
    starts."""
    mediation_max_line: int = Field(default=1 << 20, ge=1024, le=16 << 20)
    """Bytes of the longest line that is accepted from the channel."""
    constraints_file: Path | None = None
    """JSON file with the constraints that the image has (docs/reference/mediation.md)."""
    drain_grace: float = Field(default=10, ge=0)
    """Seconds that running steps get when the server stops."""
    stall_timeout: float = Field(default=60, ge=0, le=86_400, allow_inf_nan=False)
    """Seconds after which a process whose event loop stands still ends itself, to be started again; 0: never
    (docs/how-to/fleet.md)."""
    log_format: LogFormat = "auto"
    """How log lines on stderr are written: `auto` is text on a terminal and JSON elsewhere."""

    @field_validator("mesh_url", "llm_base_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        if value is not None:
            parse_http_url(value)
        return value.rstrip("/") if value else value

    @field_validator("skill_index")
    @classmethod
    def _index_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _is_web_url(value.get_secret_value()):
            raise ValueError("must be a URL like https://packages.example/simple, with http:// or https://")
        return value

    @field_validator("ca_file")
    @classmethod
    def _authorities(cls, value: Path | None) -> Path | None:
        if value is not None:
            check_authorities(value)
        return value

    @field_validator("egress_url")
    @classmethod
    def _proxy_url(cls, value: str | None) -> str | None:
        if value is not None and parse_http_url(value).tls:
            raise ValueError("must be reached in clear, as by http://127.0.0.1:8421; write http:// for https://")
        return value

    @field_validator("mediation_url")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        if value is not None:
            parse_endpoint(value)
        return value

    @field_validator("mediation_required")
    @classmethod
    def _has_a_channel(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("mediation_url") is None:
            raise ValueError("needs AGENT_MEDIATION_URL, the channel that is required")
        return value

    @field_validator("mediation_api")
    @classmethod
    def _has_channel_and_token(cls, value: bool, info: ValidationInfo) -> bool:
        if value and (info.data.get("mediation_url") is None or info.data.get("token") is None):
            raise ValueError("needs AGENT_MEDIATION_URL, and AGENT_TOKEN with the token of the workspace")
        if value and info.data.get("mediation_dialect") == "loose":
            raise ValueError("needs AGENT_MEDIATION_DIALECT=strict, because the loose dialect has no extensions")
        return value

    @field_validator("data_dir", "skills_dir", "mcp_file", "mediation_key_file", "constraints_file")
    @classmethod
    def _home_folder(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("skill_paths", mode="before")
    @classmethod
    def _folders(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        paths = [Path(part).expanduser() for part in value.split(os.pathsep) if part]
        if wrong := [str(path) for path in paths if not path.is_absolute()]:
            raise ValueError(f"{wrong[0]} must be a whole path, as in /opt/skills or ~/skills")
        return paths

    @field_validator("token")
    @classmethod
    def _token_beyond_loopback(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        host = info.data.get("host", "127.0.0.1")
        if value is None and host not in _LOOPBACK:
            raise ValueError(f"must be set to listen on {host}; without it only loopback is allowed")
        return value

    @field_validator("mesh_token")
    @classmethod
    def _sent(cls, value: SecretStr | None) -> SecretStr | None:
        return SecretStr(checked_bearer(value.get_secret_value())) if value else None

    @property
    def user_folder(self) -> Path | None:
        """The folder of the user that is the workspace; None: the workspace is in the data folder."""
        return Path(self.workspace_dir) if self.workspace_dir else None

    @property
    def has_mesh(self) -> bool:
        """Whether `AGENT_MESH_URL` names a host."""
        return "mesh_url" in self.model_fields_set

    @property
    def model_url(self) -> str:
        return self.llm_base_url or f"{self.mesh_url}/v1"

    @property
    def skills_path(self) -> Path:
        return self.skills_dir or self.data_dir / "skills"

    @property
    def data_dir_fault(self) -> str | None:
        """Why the folder in use is not the one of the image, where the sessions of earlier starts may be; else None."""
        return None if "data_dir" in self.model_fields_set else passed_over(IMAGE_DATA_DIR, self.data_dir)

    @property
    def mcp_path(self) -> Path:
        return self.mcp_file or self.data_dir / "mcp.json"


def _is_web_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and " " not in text
    except ValueError:  # of its port, or of the brackets of an IPv6 address
        return False


CLIENT_VARIABLES = frozenset({"AGENT_BOTS", "AGENT_CONTEXT", "AGENT_URL"})
"""Those of the command `agent`, which the same shell may have (docs/reference/cli.md#environment)."""
LOADER = SettingsLoader(
    Settings, PREFIX, "agent-runtime serve --help", variable_beats_file=True, ignored=CLIENT_VARIABLES
)


def load_settings(**overrides: Any) -> Settings:
    """Read the environment. Raises StartError that names every fault, a line each."""
    return LOADER.load(**overrides)
