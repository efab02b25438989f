"""Answer searches from a file, for tests and for hosts without network.

queries:
  python release:
    - {title: Python 3.15, url: "https://example.org/3.15", snippet: It is out.}
otherwise: []
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_common.protocol import SearchHit


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    queries: dict[str, list[SearchHit]] = Field(default_factory=dict)
    otherwise: list[SearchHit] = Field(default_factory=list[SearchHit])
    """The hits of any other query."""


class RecordedSearch:
    """Answers from the file. Queries match regardless of case and white space."""

    def __init__(self, path: Path) -> None:
        """Read the file, YAML or JSON. Raises ValueError that says what is wrong with it."""
        try:
            file = _File.model_validate(yaml.safe_load(path.read_text()))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read {path}") from error
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        self._queries = {_normalized(query): hits for query, hits in file.queries.items()}
        self._otherwise = file.otherwise

    async def search(self, query: str, most: int, session: str) -> Sequence[SearchHit]:
        return self._queries.get(_normalized(query), self._otherwise)[:most]

    def close(self) -> None: ...


def _normalized(query: str) -> str:
    return " ".join(query.casefold().split())
