"""Settings of the host: environment variables, `MESH_` ones and the ecosystem's own `OPENAI_` and `ANTHROPIC_` ones.

Each field's docstring is its line in `--help` and its row in `docs/reference/host.md`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

from agent_common.home_folder import below_home
from agent_common.net import (
    Endpoint,
    HostPatterns,
    Tcp,
    check_authorities,
    checked_bearer,
    parse_endpoint,
    parse_endpoints,
    split_patterns,
)
from agent_common.settings import SettingsLoader
from agent_common.telemetry import LogFormat

from .callback_targets import CallbackTargets

PREFIX = "MESH_"
OFF = "off"
ProviderKind = Literal["anthropic", "demo", "local", "openai"]


class HostSettings(BaseModel):
    """What an operator may set. Immutable once the process has started."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True, populate_by_name=True)

    host: str = "127.0.0.1"
    """Address the host listens on; `off`: only those of MESH_LISTEN. Unset, or `localhost`, it is `::1` too."""
    port: int = Field(default=8420, ge=0, le=65535)
    """Port the host listens on; 0 takes a free one."""
    listen: str | None = None
    """Further addresses it listens on, with commas: `unix:/run/mesh.sock`, `vsock://:8420`, `tcp://10.0.0.1:8420`."""
    data_dir: Path = Field(default_factory=lambda: below_home(".local/share/agent-mesh", "MESH_DATA_DIR"))
    """Folder for the database and the workspaces."""
    database_url: SecretStr | None = Field(default=None, min_length=1)
    """SQLAlchemy URL: `postgresql+psycopg://...` needs the extra `postgresql`; unset it is {MESH_DATA_DIR}/mesh.db."""
    admin_token: SecretStr | None = Field(default=None, min_length=1)
    """The operator's bearer token; unset one is made at the first start and shown once."""
    ca_file: Path | None = Field(default=None, validation_alias="AGENT_CA_FILE")
    """PEM file with certificate authorities to trust beside the public ones, such as a company's own, in every TLS
    connection of host and runtimes. SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE replace the
    public ones."""
    models: Path | None = None
    """YAML file that maps model names to providers; unset there are `default` and `embedding`."""
    provider: ProviderKind | None = None
    """Provider of the built-in models; unset it is openai when OPENAI_API_KEY or OPENAI_BASE_URL is set, anthropic when
    ANTHROPIC_API_KEY is, else demo."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY", min_length=1)
    """Key for the provider `openai`."""
    openai_base_url: str = Field(default="https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL")
    """Base URL of the provider `openai`: any OpenAI-compatible endpoint."""
    openai_model: str = Field(default="gpt-4.1-mini", validation_alias="OPENAI_MODEL", min_length=1)
    """Model that the built-in `default` stands for at the provider `openai`."""
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY", min_length=1)
    """Key for the provider `anthropic`."""
    anthropic_base_url: str = Field(default="https://api.anthropic.com", validation_alias="ANTHROPIC_BASE_URL")
    """Base URL of the provider `anthropic`: Anthropic's own, or any endpoint that speaks its Messages API."""
    anthropic_model: str = Field(default="claude-sonnet-5-5", validation_alias="ANTHROPIC_MODEL", min_length=1)
    """Model that the built-in `default` stands for at the provider `anthropic`."""
    services: Path | None = None
    """YAML file of web services that agents may call, with credentials that the host adds; unset there are none."""
    search: str = "ddgs"
    """Web search for agents: `ddgs` asks the web's engines, `recorded:PATH` answers from a file, `off` is none."""
    egress_hosts: str | None = None
    """Hosts that agents reach by its forward proxy: names, `*.name`, or `*` for all; unset there is none."""
    egress_host: str = "127.0.0.1"
    """Address the forward proxy listens on; `off`: only those of MESH_EGRESS_LISTEN."""
    egress_port: int = Field(default=8421, ge=0, le=65535)
    """Port the forward proxy listens on; 0 takes a free one."""
    egress_listen: str | None = None
    """Further addresses the forward proxy listens on, written as in MESH_LISTEN."""
    media_hosts: str | None = None
    """Hosts of images and files that agents may have a provider fetch by address; unset they send `data:` only."""
    listener_url: str = "tcp://127.0.0.1:9900"
    """Where agents come for work: tcp://host:port, unix:/path, vsock://:port, or `off`; port 0 takes a free one."""
    listener_window: int = Field(default=32, ge=1, le=1024)
    """Most requests that one agent is given at the same time, if it offers as many."""
    listener_heartbeat: float = Field(default=15, gt=0, le=3600, allow_inf_nan=False)
    """Seconds between the pings to an agent; three without a byte from it end its connection."""
    listener_max_line: int = Field(default=1 << 20, ge=1024, le=16 << 20)
    """Bytes of the longest line that an agent may send; a line of four times as many ends its connection."""
    work_attempts: int = Field(default=3, ge=1, le=100)
    """How often work is begun before it is given up."""
    work_timeout: float = Field(default=3600, gt=0, le=2_592_000, allow_inf_nan=False)
    """Seconds that an agent may take for work that sets no `max_duration_seconds`."""
    work_limit: int = Field(default=10_000, ge=1, le=1_000_000)
    """Most requests that are not over; one more is answered 429."""
    hub_max_attempts: int = Field(default=5, ge=1, le=100)
    """How often the hub delivers an envelope that its agent refuses each time, before it becomes a dead letter."""
    hub_heartbeat: float = Field(default=15, gt=0, le=3600, allow_inf_nan=False)
    """Seconds between the hub's pings over a WebSocket; without an answer within as many the link is cut."""
    artifact_bytes: int = Field(default=4 << 30, ge=0)
    """Bytes that the artifacts of one team may have, with the versions that are kept; one more is answered 507."""
    artifact_names: int = Field(default=10_000, ge=0, le=10_000_000)
    """Most artifacts of one team."""
    artifact_versions: int = Field(default=10, ge=1, le=1000)
    """Versions of one artifact that are kept, the newest."""
    callback_hosts: str | None = None
    """Hosts, with or without a port, whose callbacks may use http and inner addresses; others must be public https."""
    callback_retry: float = Field(default=2, gt=0, le=3600, allow_inf_nan=False)
    """Seconds before a callback is tried again; twice as many each time, at most an hour, for about a day."""
    audit_content: bool = False
    """Whether the audit trail keeps what frames say, beside their hashes."""
    retention_days: int = Field(default=90, ge=0, le=36_500)
    """Days that finished work, results, the audit trail, model calls, replaced constraints and what is over on the hub
    are kept; 0: for ever."""
    retention_rows: int = Field(default=5_000_000, ge=0)
    """Rows of each of them that are kept, the newest, with a fair share for each workspace; 0: all."""
    upstream_connect_timeout: float = Field(default=10, gt=0, allow_inf_nan=False)
    """Seconds to reach a provider."""
    upstream_idle_timeout: float = Field(default=300, gt=0, allow_inf_nan=False)
    """Seconds without a byte from a provider before its call is given up."""
    start_timeout: float = Field(default=30, gt=0, allow_inf_nan=False)
    """Seconds a started runtime may take until it is ready."""
    stop_grace: float = Field(default=15, ge=0, allow_inf_nan=False)
    """Seconds a runtime gets to stop before it is killed, and at most 5 of them an answer that is under way."""
    stall_timeout: float = Field(default=60, ge=0, le=86_400, allow_inf_nan=False)
    """Seconds after which a host whose event loop stands still ends itself, to be started again; 0: never."""
    hang_timeout: float = Field(default=300, ge=0, le=86_400, allow_inf_nan=False)
    """Seconds after which a runtime that answers neither on its channel nor at `/healthz` is killed and started again;
    0: never."""
    restart: bool = True
    """Whether a runtime that has ended by itself is started again, after 1 s and then less and less often."""
    restore: bool = True
    """Whether agents that ran when the host ended run again after its next start; `false`: all are stopped."""
    vm_image: Path | None = None
    """Folder with rootfs.ext4, image.json, vmlinuz and initrd.gz; unset there is no driver `qemu`."""
    vm_accel: Literal["auto", "kvm", "tcg"] = "auto"
    """How QEMU runs a machine; `auto` takes KVM if a kernel really runs with it, else the emulation."""
    vm_memory: int = Field(default=512, ge=128, le=65536)
    """MiB of memory of a machine."""
    vm_volume: int = Field(default=2048, ge=64, le=1 << 20)
    """MiB of a machine's data volume when it is made; on the disk it takes what is used of them."""
    container_image: str | None = Field(default=None, min_length=1)
    """Image that podman or docker has; unset there is no driver `container`."""
    container_engine: str | None = Field(default=None, min_length=1)
    """The program that runs containers, with its options; unset it is podman, or else docker."""
    container_options: str | None = Field(default=None, min_length=1)
    """Further options of its `run`, as in `--ulimit nofile=1024:1024 --security-opt seccomp=/etc/agent.json`."""
    firecracker: str | None = Field(default=None, min_length=1)
    """The firecracker program; with MESH_VM_IMAGE there is then a driver `firecracker`."""
    microagent: str | None = Field(default=None, min_length=1)
    """The microagent program, with its options; set, there is a driver `microagent`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious log line that is written."""
    log_format: LogFormat = "auto"
    """How log lines on stderr are written: `auto` is text on a terminal and JSON elsewhere."""

    @field_validator("openai_base_url", "anthropic_base_url")
    @classmethod
    def _http_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")

    @field_validator("openai_api_key", "anthropic_api_key")
    @classmethod
    def _sent(cls, value: SecretStr | None) -> SecretStr | None:
        return SecretStr(checked_bearer(value.get_secret_value())) if value else None

    @field_validator("search")
    @classmethod
    def _search(cls, value: str) -> str:
        if value not in ("ddgs", "off") and not re.fullmatch(r"recorded:.+", value):
            raise ValueError("must be ddgs, off or recorded:PATH")
        return value

    @field_validator("listener_url")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        if value != "off":
            parse_endpoint(value, listening=True)
        return value

    @field_validator("ca_file")
    @classmethod
    def _authorities(cls, value: Path | None) -> Path | None:
        if value is not None:
            check_authorities(value)
        return value

    @field_validator("egress_hosts", "media_hosts")
    @classmethod
    def _patterns(cls, value: str | None) -> str | None:
        if value is not None:
            HostPatterns.from_patterns(split_patterns(value))
        return value

    @field_validator("callback_hosts")
    @classmethod
    def _hosts(cls, value: str | None) -> str | None:
        CallbackTargets.from_names(split_patterns(value or ""))
        return value

    @field_validator("listen", "egress_listen")
    @classmethod
    def _addresses(cls, value: str | None, info: ValidationInfo) -> str | None:
        host = "egress_host" if info.field_name == "egress_listen" else "host"
        if not parse_endpoints(value or "") and info.data.get(host) == OFF:
            raise ValueError(f"must name an address when {PREFIX}{host.upper()} is {OFF}, as in unix:/run/mesh.sock")
        return value

    @field_validator("data_dir", "models", "services", "vm_image")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("models", "services")
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not (value.is_file() and os.access(value, os.R_OK)):
            raise ValueError("must name a file that can be read")
        return value

    @property
    def addresses(self) -> dict[str, tuple[Endpoint, ...]]:
        """Where the host listens, by the settings that name it."""
        return {"MESH_PORT": _host_port(self.host, self.port), "MESH_LISTEN": parse_endpoints(self.listen or "")}

    @property
    def egress_addresses(self) -> dict[str, tuple[Endpoint, ...]]:
        """Where the forward proxy listens, if there is one."""
        more = parse_endpoints(self.egress_listen or "")
        return {"MESH_EGRESS_PORT": _host_port(self.egress_host, self.egress_port), "MESH_EGRESS_LISTEN": more}

    @property
    def egress(self) -> HostPatterns | None:
        """The hosts that agents may reach; none: there is no way out through this host."""
        return HostPatterns.from_patterns(split_patterns(self.egress_hosts)) if self.egress_hosts else None

    @property
    def media(self) -> HostPatterns:
        """The hosts whose addresses a provider may be asked to fetch."""
        return HostPatterns.from_patterns(split_patterns(self.media_hosts or ""))

    @property
    def callback_targets(self) -> CallbackTargets:
        """Where results of tasks may be sent."""
        return CallbackTargets.from_names(split_patterns(self.callback_hosts or ""))

    @property
    def listener(self) -> Endpoint | None:
        """Where agents come for work; none: only workspaces with addresses of their own get any."""
        return None if self.listener_url == "off" else parse_endpoint(self.listener_url, listening=True)

    @property
    def mediation_addresses(self) -> dict[str, tuple[Endpoint, ...]]:
        """The address of the listener by its setting, for `open_sockets`."""
        return {"MESH_LISTENER_URL": (self.listener,)} if self.listener else {}

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url.get_secret_value() if self.database_url else f"sqlite:///{self.data_dir / 'mesh.db'}"

    @property
    def builtin_provider(self) -> ProviderKind:
        """The provider that the built-in models use."""
        if self.provider:
            return self.provider
        given = {"openai_api_key", "openai_base_url"} & self.model_fields_set
        return "openai" if given else "anthropic" if self.anthropic_api_key else "demo"

    @property
    def demo_unasked(self) -> bool:
        """Whether a model was named whose provider was not, so that the demo takes its place."""
        chosen = self.models is not None or self.provider is not None
        return "openai_model" in self.model_fields_set and self.builtin_provider == "demo" and not chosen


def _host_port(host: str, port: int) -> tuple[Endpoint, ...]:
    return () if host == OFF else (Tcp(host, port),)


CLIENT_VARIABLES = frozenset({"MESH_URL", "MESH_TOKEN", "MESH_TOKEN_FILE"})
"""Those of the bots, which the same shell may have (docs/how-to/bots.md)."""
LOADER = SettingsLoader(HostSettings, PREFIX, "agent-host up --help", ignored=CLIENT_VARIABLES)


def load_settings(**overrides: Any) -> HostSettings:
    """Read the environment. Raises StartError that names every fault, a line each."""
    return LOADER.load(**overrides)
