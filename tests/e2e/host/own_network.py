"""A network namespace for tests: no way out, and a web server at a public address."""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_testing import LiveProcess
from tests.e2e.chat.test_injection_canary import POISON

SITE = "93.184.216.34"
"""An address that is public everywhere but here."""
INSIDE = "NAMESPACE_OF_TESTS"
"""Set for the run of the tests within the namespace."""
TEXT = "<p>Something worth reading, said at some length.</p>" * 9
PAGE = f"<html><body><article><h1>Hello</h1>{TEXT}</article></body></html>"
POISONED = [{"title": POISON, "url": f"http://{SITE}:8080/poison.html", "snippet": POISON}]
HITS = [{"title": "One", "url": f"http://{SITE}:8080/page.html", "snippet": "first"}]


def run_in_own_network(file: str, timeout: float) -> None:
    """Run the other tests of a file in a network namespace. Skips where there can be none, and within it."""
    if INSIDE in os.environ:
        pytest.skip("it runs already")
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("needs root, and unshare, nsenter and ip")
    pytest_command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    with tempfile.TemporaryDirectory(prefix="net-") as folder:  # two runs would clear each other's old folders
        done = subprocess.run(
            ("unshare", "--net", *pytest_command, "--basetemp", folder, file),
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, INSIDE: "yes"},
            cwd=Path(__file__).parents[3],
            timeout=timeout,
        )
    assert done.returncode == 0, done.stdout + done.stderr


def skip_outside() -> None:
    if INSIDE not in os.environ:
        pytest.skip("runs within test_in_a_network_of_its_own")


@contextmanager
def site(folder: Path) -> Generator[None]:
    """A web server in another namespace, at the end of a wire."""
    (folder / "page.html").write_text(PAGE)
    (folder / "poison.html").write_text(
        f"<html><body><article><pre>{html.escape(POISON)}</pre>{TEXT}</article></body></html>"
    )
    (folder / "secret.txt").write_text("not for agents")
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    serve = (sys.executable, "-m", "http.server", "8080", "--bind", "0.0.0.0", "--directory", str(folder))  # noqa: S104
    wire = (
        *("ip link add here type veth peer name there netns {pid}", "ip addr add 93.184.216.1/24 dev here"),
        *("ip link set here up", "nsenter -t {pid} -n ip addr add 93.184.216.34/24 dev there"),
        "nsenter -t {pid} -n ip link set there up",
    )
    with LiveProcess(["unshare", "--net", *serve]) as server:
        server.wait_for_output("Serving HTTP")
        for command in wire:
            subprocess.run(command.format(pid=server.pid).split(), check=True)
        yield
