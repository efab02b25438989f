"""Writes the JSON Schema of every message to docs/schemas: `python -m scripts.schemas`."""

from __future__ import annotations

import json
from pathlib import Path

from agent_runtime.protocol import json_schemas

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"


def rendered() -> dict[str, str]:
    """File name -> content of every schema, from the code as it is now."""
    schemas = json_schemas().items()
    return {f"{name}.json": json.dumps(schema, indent=2, sort_keys=True) + "\n" for name, schema in schemas}


def written() -> dict[str, str]:
    """The same as it is on disk."""
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for gone in written().keys() - rendered().keys():
        (FOLDER / gone).unlink()
    for name, content in rendered().items():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
