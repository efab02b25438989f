"""The first start: it says what to do next and where it keeps things, and one's own key is enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_runtime.settings import IMAGE_DATA_DIR, Settings, passed_over
from agent_testing import LiveProcess, Say, ScriptedProvider

from ..conftest import Start
from ..live import SERVE
from ..mounts import mounted, needs_mounts

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("token", ["", "sesame"])
def test_the_first_line_of_a_start_says_what_to_do_next(start: Start, token: str) -> None:
    agent = start(AGENT_TOKEN=token, AGENT_LOG_FORMAT="json")
    ready = next(json.loads(line) for line in agent.process.output().splitlines() if '"ready"' in line)
    assert ready["data_dir"] == str(agent.data_dir)
    assert ready["next"].startswith(f"curl {agent.url}/chat")
    agent.provider.script.replace([Say("hello to you")])
    done = subprocess.run(
        ["bash", "-c", ready["next"].replace("TOKEN", token)], capture_output=True, text=True, timeout=60, check=False
    )
    assert json.loads(done.stdout)["response"] == "hello to you", done


def test_ones_own_key_is_enough_for_one_process(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    line = next(line for line in readme.splitlines() if line.startswith("AGENT_LLM_BASE_URL="))
    names = [word.partition("=")[0] for word in line.split() if "=" in word]
    assert names == ["AGENT_LLM_BASE_URL", "AGENT_MESH_TOKEN", "AGENT_MODEL"]
    with ScriptedProvider(models=("gpt-4.1-mini",)) as provider:
        provider.script.replace([Say("hello")])
        given = dict(zip(names, (f"{provider.url}", "sk-my-own", "gpt-4.1-mini"), strict=True))
        env = {**given, "AGENT_PORT": "0", "AGENT_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)}
        with LiveProcess([sys.executable, "-m", "agent_runtime", "serve"], env) as agent:
            url = agent.wait_for_output(r'"url": "(http://[^"]+)"', 60)[1]
            body = json.dumps({"message": "hello"})
            done = subprocess.run(
                ["curl", "-s", f"{url}/chat", "-d", body], capture_output=True, text=True, timeout=60, check=False
            )
        assert json.loads(done.stdout)["response"] == "hello", done
        assert provider.requests[-1].headers["authorization"] == "Bearer sk-my-own"
        assert json.loads(provider.requests[-1].body)["model"] == "gpt-4.1-mini"


@pytest.mark.parametrize(
    ("there", "used", "told"), [(True, "home", True), (True, "data", False), (False, "home", False)]
)
def test_a_folder_of_the_image_that_is_passed_over_is_named(tmp_path: Path, there: bool, used: str, told: bool) -> None:
    image = tmp_path / "data"
    if there:
        image.mkdir()
    text = passed_over(image, tmp_path / used)
    assert (text is not None) is told
    if text is not None:
        assert f"{image} cannot be written by user {os.geteuid()}, so {tmp_path / 'home'} is used" in text
        assert "AGENT_DATA_DIR" in text


def test_a_folder_that_was_named_is_not_remarked_on(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).data_dir_fault is None
    assert Path("/data") == IMAGE_DATA_DIR


@needs_mounts
def test_a_start_with_a_closed_data_folder_says_what_it_uses_instead(tmp_path: Path) -> None:
    closed, home = tmp_path / "closed", tmp_path / "home"
    closed.mkdir()
    used = home / ".local" / "share" / "agent-runtime"
    with ScriptedProvider() as provider:
        env = {"AGENT_PORT": "0", "AGENT_LLM_BASE_URL": provider.url, "HOME": str(home), "AGENT_LOG_FORMAT": "json"}
        with LiveProcess([*mounted("--ro-bind", str(closed), "/data"), *SERVE], env) as agent:
            agent.wait_for_output('"ready"', 60)
            lines = [json.loads(line) for line in agent.output().splitlines() if line.startswith("{")]
    warnings = [line["event"] for line in lines if line["level"] == "warning"]
    assert any(
        text.startswith(f"/data cannot be written by user {os.geteuid()}, so {used} is used") for text in warnings
    )
    [ready] = [line for line in lines if line["event"] == "ready"]
    assert ready["data_dir"] == str(used)
    assert (used / "agent.db").exists()
    assert list(closed.iterdir()) == []
