"""The table of providers in the docs, row by row, as catalogs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "models.md"
MODELS = {
    "OpenAI": "gpt-5.4",
    "OpenAI by": "gpt-5.4",
    "Claude": "claude-sonnet-5-5",
    "Gemini": "gemini-3-pro",
    "DeepSeek": "deepseek-v4",
    "Kimi": "kimi-k2-thinking",
    "Mistral": "magistral-medium",
    "OpenRouter": "openai/gpt-5.4",
}
"""Row -> one of the provider's models; of the others any."""


@dataclass(frozen=True)
class ProviderRow:
    """A provider, and what a person has to write for it."""

    name: str
    lines: str
    """The cell with the lines."""

    @property
    def provider(self) -> dict[str, Any]:
        """The lines at the provider."""
        return {name: value for name, value in self._stated.items() if name != "api"}

    @property
    def model(self) -> dict[str, Any]:
        """The lines at the model, with its name."""
        api = {"api": self._stated["api"]} if "api" in self._stated else {}
        return {"provider": "one", "model": MODELS.get(self.name, "large-2"), **api}

    def catalog(self) -> str:
        return json.dumps({"providers": {"one": self.provider}, "models": {"default": self.model}})

    @property
    def _stated(self) -> dict[str, Any]:
        stated: dict[str, Any] = {}
        for line in re.findall(r"`(\w+: \S+)`", self.lines.replace("HOST", "10.0.0.7")):
            stated |= yaml.safe_load(line)
        return stated


def _rows() -> list[ProviderRow]:
    heads = r"^\| \[?([A-Z][^|]*?|vLLM[^|]*?) \| ([^|]*`base_url: [^|]*) \|"
    return [
        ProviderRow("OpenAI by" if "Responses" in head else re.split(r"\W", head)[0], lines)
        for head, lines in re.findall(heads, DOCS.read_text(), re.MULTILINE)
    ]


ROWS = _rows()
