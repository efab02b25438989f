"""The example page in headless Chromium, built as users build it, with a live runtime and a scripted model."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import LiveProcess, Say, ScriptedProvider
from tests.e2e.live import PATIENCE, TOKEN, Runtime
from tests.e2e.node import NODE, run_tests, titles

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "examples" / "chat-page"
VITE = PAGE / "node_modules" / "vite" / "bin" / "vite.js"
TESTS = HERE / "page.test.mjs"
MOST_SECONDS = 120.0


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The tests of Node's: name -> what went wrong, nothing when it passed."""
    folder = tmp_path_factory.mktemp("page")
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert chromium, "Chromium is not installed; run: make page-test"
    built = ["--outDir", str(folder / "dist")]
    subprocess.run([NODE, VITE, "build", *built, "--logLevel", "warn"], cwd=PAGE, check=True, timeout=60)
    with ScriptedProvider() as provider, Runtime(provider, folder / "agent") as runtime:
        write_long_conversation(runtime)
        env = {"AGENT_URL": runtime.url, "AGENT_TOKEN": TOKEN, "NO_COLOR": "1"}
        serve = [NODE, VITE, "preview", *built, "--port", "0", "--host", "127.0.0.1"]
        with LiveProcess(serve, env, cwd=PAGE) as page:
            url = page.wait_for_output(r"http://127.0.0.1:\d+", PATIENCE)[0]
            yield run_tests(runtime, TESTS, "7", {"PAGE_URL": url, "CHROMIUM": chromium}, within=MOST_SECONDS)


def write_long_conversation(runtime: Runtime) -> None:
    """The session `long` of 242 messages, which is more than a page of them."""
    runtime.provider.script.replace(lambda request: Say(f"answer to {request.last_user_text}"))
    for number in range(121):
        assert runtime.chat(f"question {number}", session_id="long").status_code == 200


@pytest.mark.parametrize("title", titles(TESTS))
def test_the_page(results: dict[str, str], title: str) -> None:
    if fault := results[title]:
        pytest.fail(fault, pytrace=False)
