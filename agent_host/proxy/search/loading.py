"""Choose the search provider that `MESH_SEARCH` names."""

from __future__ import annotations

import os
from pathlib import Path

from agent_common.net import authorities_pem

from ...errors import StartError
from .provider import SearchProvider
from .recorded import RecordedSearch
from .web import DdgsSearch

AUTHORITIES_NAME = "authorities.pem"


def load_search(text: str, data_dir: Path) -> SearchProvider | None:
    """Return the provider, or None if search is off. `data_dir`: the host's, for the authorities that ddgs takes as a
    file. Raises StartError if the setting is invalid."""
    if text == "off":
        return None
    if text == "ddgs":
        return DdgsSearch(verify=_authorities(data_dir))
    try:
        return RecordedSearch(Path(text.removeprefix("recorded:")).expanduser())
    except ValueError as error:
        raise StartError(f"MESH_SEARCH: {error}") from error


def _authorities(data_dir: Path) -> bool | str:
    """Return `verify` of ddgs: a file with the authorities that the environment names, or True for those of its own."""
    try:
        if (pem := authorities_pem(os.environ)) is None:
            return True
        path = data_dir / AUTHORITIES_NAME
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(pem)
    except ValueError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"MESH_DATA_DIR: {data_dir} cannot be written: {error.strerror}") from error
    return str(path)
