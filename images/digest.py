"""Gives an image in the OCI layout the digest that follows from what is in it: `python images/digest.py LAYOUT`.

Podman and buildah note in the history from which image each step went on, by ids that are new at every build. Without
those notes the same layers and the same configuration are the same image. The digest is printed.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any


def replace_blob(blobs: Path, old: str, document: Any) -> dict[str, Any]:
    """In the place of the blob that had the old digest; returns what describes it."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    name = hashlib.sha256(text).hexdigest()
    (blobs / old.removeprefix("sha256:")).unlink()
    (blobs / name).write_bytes(text)
    return {"digest": f"sha256:{name}", "size": len(text)}


def main(folder: Path) -> str:
    blobs = folder / "blobs/sha256"

    def read(digest: str) -> Any:
        return json.loads((blobs / digest.removeprefix("sha256:")).read_text())

    index = json.loads((folder / "index.json").read_text())
    [image] = index["manifests"]
    manifest = read(image["digest"])
    config = read(manifest["config"]["digest"])
    for step in config["history"]:
        step.pop("comment", None)
    manifest["config"] |= replace_blob(blobs, manifest["config"]["digest"], config)
    image |= replace_blob(blobs, image["digest"], manifest)
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True))
    return str(image["digest"])


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
