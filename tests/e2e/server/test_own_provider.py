"""A provider of one's own, set up wrong: each fault is named with the setting to correct, and no key gets out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Fail, LiveProcess, Say, ScriptedProvider
from agent_testing.provider import Recorded
from tests.integration.host.live import UP, Host

from ..live import Runtime, eventually, fresh

pytestmark = pytest.mark.slow

KEY, MODEL = "sk-of-the-company", "company-large"
CATALOG = """
providers:
  wrong-key: {{base_url: "{url}", api_key_env: WRONG_KEY}}
  no-key: {{base_url: "{url}"}}
  no-path: {{base_url: "{root}", api_key_env: RIGHT_KEY}}
  gone: {{base_url: "http://user:password@127.0.0.1:1/v1?secret=password"}}
models:
  default: {{provider: openai, model: company-large}}
  wrong-name: {{provider: openai, model: company-lrge}}
  wrong-key: {{provider: wrong-key, model: company-large}}
  no-key: {{provider: no-key, model: company-large}}
  no-path: {{provider: no-path, model: company-large}}
  gone: {{provider: gone}}
  vectors: {{provider: openai, capabilities: [embeddings]}}
"""


def company(request: Recorded) -> Any:
    """An endpoint that looks at keys and models, as real ones do."""
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return Fail(401, "Incorrect API key provided", "invalid_api_key")
    if request.fields["model"] != MODEL:
        return Fail(404, f"The model `{request.fields['model']}` does not exist", "model_not_found")
    return Say("hello")


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(company, models=(MODEL,)) as provider:
        yield provider


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    models = folder / "models.yaml"
    models.write_text(CATALOG.format(url=provider.url, root=provider.url.removesuffix("/v1")))
    keys = {"OPENAI_API_KEY": f" {KEY}\n", "RIGHT_KEY": KEY, "WRONG_KEY": "sk-other"}
    with Host(folder / "data", MESH_MODELS=models, OPENAI_BASE_URL=provider.url, **keys) as host:
        yield host


@pytest.fixture(scope="module")
def agent(host: Host, provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Its own model is one that is not there."""
    here = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": f" {host.token('agent')} "}
    quick = {"AGENT_MODEL_ATTEMPTS": 1, "AGENT_CONFINEMENT": "off"}
    with Runtime(provider, tmp_path_factory.mktemp("agent"), AGENT_MODEL="gpt-9", **here, **quick) as agent:
        yield agent


def not_started(tmp_path: Path, **settings: str) -> str:
    quiet = {"MESH_DATA_DIR": str(tmp_path), "MESH_PORT": "0", "MESH_LISTENER_URL": "off"}
    with LiveProcess(UP, quiet | settings) as process:
        assert process.wait(60) == 1, process.output()
        return process.output()


def test_a_key_with_blanks_around_it_is_used_without_them(agent: Runtime) -> None:
    """Sent as it was set, it would be quoted by the error of the HTTP client, which reaches the agent."""
    assert agent.chat("hi", session_id=fresh("s"), model="default").json()["response"] == "hello"


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("wrong-key", "model_auth", "); the operator must set WRONG_KEY to a valid"),
        ("wrong-key", "model_auth", "refused the host's key (HTTP 401: "),
        ("no-key", "model_auth", "); the operator must set MESH_MODELS: "),
        ("no-key", "model_auth", "requires a key, and the host has none (HTTP 401: "),
        ("wrong-name", "unknown_model", "'wrong-name' stands for 'company-lrge': correct the host's OPENAI_MODEL or"),
        ("no-path", "model_config", "must end before /chat/completions, often in /v1"),
        ("gone", "model_unavailable", "(http://127.0.0.1:1/v1)"),
    ],
)
def test_what_is_wrong_is_named_with_its_setting(host: Host, agent: Runtime, model: str, code: str, words: str) -> None:
    reply = agent.chat("hi", session_id=fresh("s"), model=model).json()
    assert reply["code"] == code
    assert words in reply["detail"]
    assert '"error": "' in host.process.wait_for_output(f'"model_call_failed".*"{model}".*').group()
    assert "password" not in reply["detail"] + host.process.output() + agent.process.output()


def test_a_model_that_is_not_there_is_told_at_the_start_and_then_with_the_names_that_chat(
    host: Host, agent: Runtime
) -> None:
    there = f"there is no model 'gpt-9'; {host.url}/v1 lists default, gone, no-key, no-path, wrong-key, wrong-name"
    eventually(lambda: f"AGENT_MODEL: {there}" in agent.process.output())
    assert agent.chat("hi", session_id=fresh("s")).json()["detail"] == there
    assert agent.chat("hi", session_id=fresh("s"), model="gpt-9").json()["detail"] == there


def test_a_model_that_the_operator_adds_can_be_named_at_once(host: Host, agent: Runtime) -> None:
    assert agent.chat("hi", session_id=fresh("s"), model="new").json()["code"] == "unknown_model"
    models = Path(host.env["MESH_MODELS"])
    before = models.read_text()
    models.write_text(before + "  new: {provider: openai, model: company-large}\n")
    host.env["MESH_PORT"] = host.url.rpartition(":")[2]
    host.start()
    eventually(lambda: agent.chat("hi", session_id=fresh("s"), model="new").json().get("response") == "hello")
    models.write_text(before)
    host.start()


def test_a_key_that_no_header_carries_is_refused_and_not_quoted(tmp_path: Path) -> None:
    key = "sk-of thé company"
    catalog = tmp_path / "models.yaml"
    catalog.write_text(
        "providers: {own: {base_url: 'http://127.0.0.1:1', api_key_env: OWN_KEY}}\nmodels: {default: {provider: own}}"
    )
    for variable, more in (("OPENAI_API_KEY", {}), ("OWN_KEY", {"MESH_MODELS": str(catalog)})):
        said = not_started(tmp_path / "data", **{variable: key, **more})
        assert variable in said
        assert "without white space inside" in said
        assert key not in said
        assert "Traceback" not in said


def test_an_address_that_goes_too_far_is_refused(tmp_path: Path) -> None:
    said = not_started(tmp_path, OPENAI_BASE_URL="http://127.0.0.1:1/v1/chat/completions")
    assert "OPENAI_BASE_URL: must end before /chat/completions" in said


def test_the_start_says_what_answers_and_where_without_the_password(tmp_path: Path) -> None:
    url = "http://user:password@127.0.0.1:1/v1/"
    with Host(tmp_path, OPENAI_BASE_URL=url, OPENAI_MODEL=MODEL, MESH_LISTENER_URL="off") as host:
        assert f"default is {MODEL} at http://127.0.0.1:1/v1;" in host.process.output()
