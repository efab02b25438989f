"""The image's bill of materials as CycloneDX 1.6 JSON: the agent, its Python packages, and Debian's packages.

`python sbom.py PYPROJECT`, run inside the image by the Python whose packages are listed. The same image gives the same
bytes: there is no time in it, and its serial number follows from what it lists.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

STATUS = Path("/var/lib/dpkg/status")


def python_packages() -> Iterator[dict[str, Any]]:
    for found in metadata.distributions():
        name, version = re.sub(r"[-_.]+", "-", found.name).lower(), found.version
        purl = f"pkg:pypi/{name}@{quote(version)}"
        component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        if licence := _licence(found.metadata):
            component["licenses"] = [{"license": {"name": licence}}]
        yield component


def _licence(about: Any) -> str:
    """What a package says of itself, in one line: new field, old field, classifier."""
    for field in ("License-Expression", "License"):
        said: str = about.get(field) or ""
        if said and "\n" not in said and len(said) < 100:
            return said
    classifiers: list[str] = about.get_all("Classifier") or []
    return next((one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License ::")), "")


def debian_packages() -> Iterator[dict[str, Any]]:
    for paragraph in STATUS.read_text().split("\n\n") if STATUS.exists() else ():
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={fields['Architecture']}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill_of_materials(project: dict[str, Any]) -> dict[str, Any]:
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = sorted([*python_packages(), *debian_packages()], key=lambda part: part["purl"])
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([purl, *(part["purl"] for part in parts)]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": project["name"],
                "version": project["version"],
                "purl": purl,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
    }


if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
    json.dump(bill_of_materials(project), sys.stdout, indent=1, sort_keys=True)
    print()
