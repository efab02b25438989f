"""What answers for the model of a host on this machine. The choice and the key are files that only their owner can
read; the key is never an argument and never in an environment that outlives the start."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..errors import CliError
from .kept_files import keep_file

Provider = Literal["demo", "openai-compatible", "anthropic"]
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_MODEL = "gpt-4.1-mini"
ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_MODEL = "claude-sonnet-5-5"
"""Those of the host, where nothing else is set."""
VARIABLES: Mapping[Provider, str] = {"openai-compatible": "OPENAI", "anthropic": "ANTHROPIC"}
"""What the ecosystem's variables for a provider begin with."""
_DEFAULTS: Mapping[Provider, tuple[str, str]] = {
    "openai-compatible": (OPENAI_URL, OPENAI_MODEL),
    "anthropic": (ANTHROPIC_URL, ANTHROPIC_MODEL),
}
_FILE = "model.json"
_KEY = "model.key"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A provider, and unless it is the demo its address, the model and the key."""

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
        name = VARIABLES[self.provider]
        key = {f"{name}_API_KEY_FILE": str(folder / _KEY)} if self.key else {}
        settings = {f"{name}_BASE_URL": self.base_url, f"{name}_MODEL": self.model}
        return {"MESH_PROVIDER": name.lower(), **settings, **key}


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
        data = path.read_bytes()
        key = _read_key(folder / _KEY)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path}: cannot be read: {error}") from error
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(ModelChoice).validate_python({**json.loads(data), "key": key})  # noqa: TID251  our own file
    except (ValidationError, ValueError, TypeError) as error:
        raise CliError(f"{path}: holds no choice of a model", f"rm {path}, then `agent up` asks again") from error


@contextmanager
def saved_if_it_works(choice: ModelChoice, folder: Path) -> Generator[None]:
    """Keep the choice, whose key a host reads at its start; if that fails, what was kept before comes back. Raises
    CliError."""
    paths = (folder / _KEY, folder / _FILE)
    before = [path.read_text("utf-8") if path.exists() else None for path in paths]
    save_choice(choice, folder)
    try:
        yield
    except BaseException:
        for path, text in zip(paths, before, strict=True):
            if text is None:
                path.unlink(missing_ok=True)
            else:
                keep_file(path, text)
        raise


def default_choice(provider: Provider) -> ModelChoice:
    """Return what is offered for a provider, without a key."""
    return ModelChoice(provider, *_DEFAULTS[provider]) if provider in _DEFAULTS else ModelChoice(provider)


def choices_of_environment(saved: ModelChoice | None = None) -> Sequence[ModelChoice]:
    """Return the choices that the ecosystem's own variables make, OpenAI's first as in the host. What they do not say
    is as it was saved for that provider, or else the default. Raises CliError."""
    found: list[ModelChoice] = []
    for provider, name in VARIABLES.items():
        key = key_of_environment(provider)
        url = os.environ.get(f"{name}_BASE_URL")
        if key or (url and provider == "openai-compatible"):
            base = saved if saved is not None and saved.provider == provider else default_choice(provider)
            model = os.environ.get(f"{name}_MODEL") or base.model
            found.append(ModelChoice(provider, (url or base.base_url).rstrip("/"), model, key))
    return found


def models_in_words(choice: ModelChoice) -> str:
    """Return which models a host has that is started with the choice here: a catalog decides alone."""
    catalog = os.environ.get("MESH_MODELS")
    return f"the models of {catalog}" if catalog else str(choice)


def ignored_variables(choice: ModelChoice) -> str | None:
    """Return in words what the environment says of the model while another choice is used; None if it says the same, or
    nothing, or a catalog decides. Raises CliError."""
    if os.environ.get("MESH_MODELS"):
        return None
    found = choices_of_environment(choice)
    if not found or any(replace(one, key=one.key or choice.key) == choice for one in found):
        return None
    name = VARIABLES[found[0].provider]
    variable = next(one for one in ("API_KEY", "API_KEY_FILE", "BASE_URL") if os.environ.get(f"{name}_{one}"))
    takes = f"`agent up --provider {found[0].provider}` takes it"
    return f"{name}_{variable} is set, but the choice made before is used; {takes}"


def key_of_environment(provider: Provider) -> str | None:
    """Return the key for a provider, such as OPENAI_API_KEY, or what is in the file that OPENAI_API_KEY_FILE names.
    Raises CliError."""
    name = f"{VARIABLES[provider]}_API_KEY"
    if key := os.environ.get(name):
        return key.strip()
    if not (named := os.environ.get(f"{name}_FILE")):
        return None
    try:
        return Path(named).expanduser().read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{name}_FILE: {named} cannot be read: {error}") from error


def _read_key(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None
