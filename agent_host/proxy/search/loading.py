"""Choose the search provider that `MESH_SEARCH` names."""

from __future__ import annotations

from pathlib import Path

from ...errors import StartError
from .provider import SearchProvider
from .recorded import RecordedSearch
from .web import DdgsSearch


def load_search(text: str) -> SearchProvider | None:
    """Return the provider, or None if search is off. Raises StartError if the setting is invalid."""
    if text == "off":
        return None
    if text == "ddgs":
        return DdgsSearch()
    try:
        return RecordedSearch(Path(text.removeprefix("recorded:")).expanduser())
    except ValueError as error:
        raise StartError(f"MESH_SEARCH: {error}") from error
