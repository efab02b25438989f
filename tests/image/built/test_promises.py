"""What the built image promises: layers, sizes, who runs in it, and what is not in it."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from images.rootfs import Layout

from .engine import FOLDER, ROOT, UID, Container, image, inside

pytestmark = pytest.mark.timeout(300)
MOST = 60_000_000
"""Bytes of our layers together, compressed."""
MOST_RESIDENT = 80 * 1024
"""KiB of the server when it has nothing to do."""
LOOK = Path(__file__).with_name("look.py")
LINE = re.compile(r"^([\w.-]+)==(\S+)(.*) \\$", re.MULTILINE)
COUNT = """
from agent_runtime.context.tokens.encodings import encoder
print(encoder("o200k_base").count("hello world"), encoder("cl100k_base").count("hello"))
"""
ASK = """
import json, urllib.request as r
asked = r.Request("http://127.0.0.1:8400/status", headers={"Authorization": "Bearer x"})
print(json.load(r.urlopen(asked))["confinement"])
"""


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(FOLDER / "oci")


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return json.loads(inside("/opt/agent/bin/python", "-c", LOOK.read_text()))


def names(layer: Path) -> list[str]:
    with tarfile.open(layer) as archive:
        return archive.getnames()


def test_three_layers_above_the_base_each_for_its_own(layout: Layout) -> None:
    base, *ours = layout.layers()
    assert len(ours) == 3
    for layer in (base, *ours):
        print(f"{layer.stat().st_size / 1e6:.1f} MB compressed")
    assert sum(layer.stat().st_size for layer in ours) < MOST
    dependencies, source = map(names, ours[1:])
    own = ("site-packages/agent_common", "site-packages/agent_runtime")
    assert not [name for name in dependencies if any(package in name for package in own)]
    assert not [name for name in source if "site-packages/" in name and not any(package in name for package in own)]


def test_the_configuration_is_as_promised() -> None:
    config = image()["Config"]
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"] == ["tini", "--", "agent-runtime"]
    assert config["Volumes"] == {"/data": {}}
    assert image()["Healthcheck"]["Test"] == ["CMD", "agent-healthz"]
    for name in ("title", "version", "revision", "licenses"):
        assert config["Labels"][f"org.opencontainers.image.{name}"]
    assert not re.search(r"token|secret|passw|sk-", " ".join(config["Env"]), re.IGNORECASE)


def test_every_module_is_compiled_whatever_the_times_of_files(seen: dict[str, Any]) -> None:
    assert seen["missing"] == []
    assert seen["timed"] == []


def test_nothing_that_installs_or_compiles_or_is_the_hosts(seen: dict[str, Any]) -> None:
    assert (seen["found"], seen["modules"], seen["bits"]) == ([], [], [])


def test_only_data_and_tmp_can_be_written(seen: dict[str, Any]) -> None:
    assert (seen["uid"], seen["writable"]) == (UID, ["/data", "/tmp"])


def test_what_was_lent_to_the_build_is_not_in_it(layout: Layout) -> None:
    """No secret, no configuration of pip, in any layer of ours."""
    for layer in list(layout.layers())[1:]:
        found = names(layer)
        assert not [name for name in found if name.startswith(("run/pip/", "etc/pip.conf", "requirements", "build/"))]
        assert not [name for name in found if name.endswith((".pem", ".key", ".env")) and "certifi" not in name]
        assert b"BEGIN PRIVATE KEY" not in gzip.decompress(layer.read_bytes())


def test_tokens_are_counted_without_a_network() -> None:
    assert inside("/opt/agent/bin/python", "-c", COUNT).split() == ["2", "1"]


def test_the_bill_of_materials_lists_what_is_installed() -> None:
    bill = json.loads(inside("cat", "/usr/share/agent-runtime/sbom.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert {"bubblewrap", "ripgrep", "tini", "fastapi", "pydantic"} <= listed.keys()
    lock = (ROOT / "requirements/runtime.lock").read_text()
    locked = {name: version for name, version, where in LINE.findall(lock) if "sys_platform ==" not in where}
    assert len(locked) > 50
    assert {name: listed.get(name) for name in locked} == locked


def test_a_server_at_rest_is_small() -> None:
    with Container(AGENT_TOKEN="x") as guest:
        guest.wait_for_output('"event": "ready"')
        resident = int(guest.server()[1]["VmRSS"].split()[0])
        print(f"{resident} KiB resident")
        assert resident < MOST_RESIDENT
        assert guest.stop() == 0


@pytest.mark.parametrize(("options", "backend"), [((), "landlock"), (("--security-opt", "unmask=ALL"), "bubblewrap")])
def test_commands_are_held_without_a_fault(options: tuple[str, ...], backend: str) -> None:
    """`required` starts with a backend that has none; which one, its own status says."""
    with Container(*options, AGENT_TOKEN="x", AGENT_CONFINEMENT="required") as guest:
        guest.wait_for_output('"event": "ready"')
        assert guest.run("python", "-c", ASK).strip() == backend
