"""The manifests against the API's own schemas, and that those find what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted((ROOT / "images/kubernetes").rglob("*.yaml"))
OLDEST, NEWEST = "1.29.0", "1.37.0"
MISTAKES = [
    ("statefulset", "serviceName: writer", "serviceNam: writer"),
    ("statefulset", "replicas: 1", "replicas: one"),
    ("statefulset", "drop: [ALL]", "drop: ALL"),
    ("statefulset", "apiVersion: apps/v1", "apiVersion: apps/v2"),
    ("networkpolicy", "podSelector: {}", "podSelektor: {}"),
    ("runtimeclass", "handler: kata", "handlers: kata"),
    ("namespace", "kind: Namespace", "kind: Namespaces"),
    ("mesh/deployment", "strategy: {type: Recreate}", "strategi: {type: Recreate}"),
    ("mesh/deployment", "claimName: agent-mesh", "claim: agent-mesh"),
    ("mesh/networkpolicy", "ipBlock:", "ipBlocks:"),
]


def faults(manifest: Path, version: str = NEWEST) -> str:
    """What the API would not take; nothing if all is well. Documents of a kind that the API does not have are only
    warned of, so those that passed are counted."""
    program = Path(sys.executable).with_name("kubernetes-validate")
    command = (program, "--strict", "-k", version, manifest)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    whole = said.count(" passed for resource ") == len(list(yaml.safe_load_all(manifest.read_text())))
    return "" if done.returncode == 0 and whole else said


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT / "images/kubernetes")))
def test_it_is_what_the_api_takes(manifest: Path, version: str) -> None:
    assert not faults(manifest, version)


@pytest.mark.parametrize(("name", "right", "wrong"), MISTAKES)
def test_a_mistake_is_found(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    text = (ROOT / f"images/kubernetes/{name}.yaml").read_text()
    assert right in text
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text.replace(right, wrong, 1))
    assert "manifest.yaml" in faults(manifest)
