"""Writes the JSON Schemas of all messages to docs/schemas, and those of the mediation channel to docs/protocols:
`python -m scripts.schemas`."""

from __future__ import annotations

import json
from pathlib import Path

from agent_common.protocol import json_schemas
from agent_common.protocol.work import work_schemas

DOCS = Path(__file__).parent.parent / "docs"
FOLDERS = {"schemas": json_schemas, "protocols": work_schemas}


def rendered() -> dict[str, str]:
    """Path below docs -> content of every schema, from the code as it is now."""
    return {
        f"{folder}/{name}.json": json.dumps(schema, indent=2, sort_keys=True) + "\n"
        for folder, schemas in FOLDERS.items()
        for name, schema in schemas().items()
    }


def written() -> dict[str, str]:
    """The same as it is on disk."""
    paths = [path for folder in FOLDERS for path in (DOCS / folder).glob("*.json")]
    return {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def main() -> None:
    for folder in FOLDERS:
        (DOCS / folder).mkdir(parents=True, exist_ok=True)
    for gone in written().keys() - rendered().keys():
        (DOCS / gone).unlink()
    for name, content in rendered().items():
        (DOCS / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
