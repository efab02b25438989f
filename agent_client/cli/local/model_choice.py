"""What answers for the model of a host on this machine. The choice and the key are files that only their owner can
read; the key is never an argument and never in an environment that outlives the start."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from ..errors import CliError
from .kept_files import keep_file

Provider = Literal["demo", "openai-compatible"]
OPENAI_URL, OPENAI_MODEL = "https://api.openai.com/v1", "gpt-4.1-mini"
"""Those of the host, where nothing else is set."""
_FILE, _KEY = "model.json", "model.key"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A provider, and for one of OpenAI's dialect its address, the model and the key."""

    provider: Provider
    base_url: str = OPENAI_URL
    model: str = OPENAI_MODEL
    key: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return "the demo model" if self.provider == "demo" else f"{self.model} at {self.base_url}"

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return the settings of a host by which it uses this model, once the choice is saved in the folder."""
        if self.provider == "demo":
            return {"MESH_PROVIDER": "demo"}
        key = {"OPENAI_API_KEY_FILE": str(folder / _KEY)} if self.key else {}
        return {"MESH_PROVIDER": "openai", "OPENAI_BASE_URL": self.base_url, "OPENAI_MODEL": self.model, **key}


def save_choice(choice: ModelChoice, folder: Path) -> None:
    """Keep the choice for later starts. Raises CliError."""
    if choice.key:
        keep_file(folder / _KEY, f"{choice.key}\n")
    else:
        (folder / _KEY).unlink(missing_ok=True)
    known = {name: value for name, value in asdict(choice).items() if name != "key"}
    keep_file(folder / _FILE, json.dumps(known, indent=2) + "\n")


def load_choice(folder: Path) -> ModelChoice | None:
    """Return the choice that was kept; None if there is none. Raises CliError that names the fault."""
    path = folder / _FILE
    try:
        data, key = path.read_bytes(), _read_key(folder / _KEY)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path}: cannot be read: {error}") from error
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(ModelChoice).validate_python({**json.loads(data), "key": key})  # noqa: TID251  our own file
    except (ValidationError, ValueError, TypeError) as error:
        raise CliError(f"{path}: holds no choice of a model", f"rm {path}, then `agent up` asks again") from error


def choice_of_environment() -> ModelChoice | None:
    """Return the choice that the ecosystem's own variables make; None if they make none. Raises CliError."""
    key, url = key_of_environment(), os.environ.get("OPENAI_BASE_URL")
    if not key and not url:
        return None
    model = os.environ.get("OPENAI_MODEL") or OPENAI_MODEL
    return ModelChoice("openai-compatible", (url or OPENAI_URL).rstrip("/"), model, key)


def key_of_environment() -> str | None:
    """Return OPENAI_API_KEY, or what is in the file that OPENAI_API_KEY_FILE names. Raises CliError."""
    if key := os.environ.get("OPENAI_API_KEY"):
        return key.strip()
    if not (named := os.environ.get("OPENAI_API_KEY_FILE")):
        return None
    try:
        return Path(named).expanduser().read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"OPENAI_API_KEY_FILE: {named} cannot be read: {error}") from error


def _read_key(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
