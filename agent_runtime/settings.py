"""Settings of the runtime: environment variables with the prefix `AGENT_` (DESIGN.md 5).

Each field's docstring is its line in `--help` and its row in `docs/settings.md`. A secret also has a `_FILE` form,
which names a file that holds it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from .errors import StartError

PREFIX = "AGENT_"
DEFAULT_CONTEXT = 128_000
"""Tokens of a window that nobody has told us about."""
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _default_data_dir() -> Path:
    image = Path("/data")
    return image if os.access(image, os.W_OK) else Path.home() / ".local/share/agent-runtime"


class Settings(BaseSettings):
    """What an operator may set. Immutable once the process has started."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True)

    id: str = Field(default="agent", pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,99}$")
    """Name of this agent."""
    role: str = Field(default="assistant", min_length=1, max_length=200)
    """What the agent is for, shown in its prompt and status."""
    host: str = "127.0.0.1"
    """Address the server listens on; beyond loopback it needs AGENT_TOKEN."""
    port: int = Field(default=8400, ge=0, le=65535)
    """Port the server listens on; 0 takes a free one."""
    data_dir: Path = Field(default_factory=_default_data_dir)
    """Folder for the database, the workspace and the skills."""
    backup_minutes: float = Field(default=60, ge=0, le=525_600)
    """Minutes between backups of the database, of which {AGENT_DATA_DIR}/backups keeps the newest two; 0 makes none."""
    token: SecretStr | None = Field(default=None, min_length=1, validate_default=True)
    """Bearer token callers must send; none means loopback only."""
    mesh_url: str = "http://127.0.0.1:8420"
    """The host's mesh."""
    mesh_token: SecretStr | None = Field(default=None, min_length=1)
    """Bearer token for the mesh and the model endpoint."""
    llm_base_url: str | None = None
    """OpenAI-compatible endpoint; unset it is {AGENT_MESH_URL}/v1."""
    model: str = Field(default="default", min_length=1)
    """Model used unless a message names another."""
    skills_dir: Path | None = None
    """Folder of @skill plugins; unset it is {AGENT_DATA_DIR}/skills."""
    skill_memory_mb: int = Field(default=512, ge=64)
    """Memory limit of the skill worker in MiB."""
    confinement: Literal["auto", "required", "off"] = "auto"
    """How commands and skills are held: best rung there is, refuse to start without one, or bare."""
    max_iterations: int = Field(default=20, ge=1, le=500)
    """Steps in a task."""
    max_rounds: int = Field(default=30, ge=1, le=500)
    """Steps in a chat turn."""
    max_concurrent_turns: int = Field(default=4, ge=1, le=256)
    """Turns that run at the same time."""
    max_queue: int = Field(default=100, ge=0, le=10_000)
    """Turns that may wait; one more is answered with 429."""
    max_parallel_tools: int = Field(default=8, ge=1, le=64)
    """Tool calls of one step that run at the same time."""
    turn_timeout: float = Field(default=1800, gt=0)
    """Seconds a chat turn may take."""
    answer_timeout: float = Field(default=604_800, gt=0, le=31_536_000, allow_inf_nan=False)
    """Seconds a question or an approval stays open before its turn ends."""
    tool_timeout: float = Field(default=120, gt=0)
    """Seconds a tool call may take unless the tool says otherwise."""
    model_idle_timeout: float = Field(default=120, gt=0)
    """Seconds without a byte from the model before a call is given up."""
    model_attempts: int = Field(default=4, ge=1, le=20)
    """Times a model call is made before its transient failure counts."""
    context_limit: int | None = Field(default=None, ge=1024)
    """Tokens of the model's window; unset it is the model catalog's, else 128000."""
    drain_grace: float = Field(default=10, ge=0)
    """Seconds running steps get when the server is told to stop."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least serious log line that is written."""

    @field_validator("mesh_url", "llm_base_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://", "http+unix://")):
            raise ValueError("must begin with http://, https:// or http+unix://")
        if value is not None and not _names_a_host(value):
            raise ValueError("must name a host, as in http://127.0.0.1:8420")
        return value.rstrip("/") if value else value

    @field_validator("token", "mesh_token", mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        if isinstance(value, _Unreadable):
            raise ValueError(value.reason)
        return value

    @field_validator("data_dir", "skills_dir")
    @classmethod
    def _home_folder(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @field_validator("token")
    @classmethod
    def _token_beyond_loopback(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        host = info.data.get("host", "127.0.0.1")
        if value is None and host not in _LOOPBACK:
            raise ValueError(f"must be set to listen on {host}; without it only loopback is allowed")
        return value

    @property
    def model_url(self) -> str:
        return self.llm_base_url or f"{self.mesh_url}/v1"

    @property
    def skills_path(self) -> Path:
        return self.skills_dir or self.data_dir / "skills"

    @classmethod
    def settings_customise_sources(  # pyright: ignore[reportIncompatibleMethodOverride]  it is called by keyword
        cls, settings_cls: type[BaseSettings], **sources: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return sources["init_settings"], sources["env_settings"], _SecretFiles(settings_cls)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands where the content of a secret's file would stand."""

    reason: str


class _SecretFiles(PydanticBaseSettingsSource):
    """`AGENT_TOKEN_FILE=/run/secrets/token` gives AGENT_TOKEN the stripped content of that file."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"{PREFIX}{field_name.upper()}_FILE")
        if not path or field_name not in secret_fields(self.settings_cls):
            return None, field_name, False
        try:
            return Path(path).read_text().strip(), field_name, False
        except OSError as error:
            reason = error.strerror
        except UnicodeDecodeError:
            reason = "it is not text"
        return _Unreadable(f"{PREFIX}{field_name.upper()}_FILE: cannot read {path}: {reason}"), field_name, False

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(None, name)[0] for name in self.settings_cls.model_fields}
        return {name: value for name, value in found.items() if value is not None}


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def secret_fields(settings_cls: type[BaseSettings]) -> set[str]:
    """Names of the fields that hold a secret."""
    return {name for name, field in settings_cls.model_fields.items() if "SecretStr" in str(field.annotation)}


def load_settings(**overrides: Any) -> Settings:
    """Reads the environment. Raises StartError that names every fault."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise StartError(
            "\n".join(_fault(one["loc"], one["msg"], one.get("input")) for one in error.errors())
        ) from None


def _fault(where: tuple[int | str, ...], message: str, value: Any) -> str:
    name = PREFIX + str(where[0]).upper() if where else "settings"
    shown = f" (is {value!r})" if where and str(where[0]) not in secret_fields(Settings) else ""
    return f"{name}: {message.removeprefix('Value error, ')}{shown}"
