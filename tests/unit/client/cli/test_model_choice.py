"""Which model a host is started with: what was saved, what the environment says, what the options name."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_client.cli.errors import UsageError
from agent_client.cli.local import ModelChoice, ModelOptions, choose_model, ignored_variables, load_choice
from agent_client.cli.local.model_choice import Provider, models_in_words, saved_if_it_works
from agent_client.cli.output import Output
from agent_testing import ScriptedProvider

DEMO = ModelChoice("demo")
OWN = ModelChoice("openai-compatible", "https://llm.example.com/v1", "large-2", "sk-1")
TAKES = "; `agent up --provider openai-compatible` takes it"


@pytest.mark.parametrize(
    ("saved", "environment", "named"),
    [
        (DEMO, {}, None),
        (OWN, {}, None),
        (DEMO, {"OPENAI_API_KEY": "sk-1"}, "OPENAI_API_KEY"),
        (DEMO, {"OPENAI_BASE_URL": "http://localhost:1/v1"}, "OPENAI_BASE_URL"),
        (DEMO, {"OPENAI_MODEL": "large-2"}, None),
        (OWN, {"OPENAI_API_KEY": "sk-1"}, None),
        (OWN, {"OPENAI_API_KEY": "sk-2"}, "OPENAI_API_KEY"),
        (OWN, {"OPENAI_BASE_URL": "https://llm.example.com/v1/"}, None),
        (OWN, {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-ant"}, None),
        (ModelChoice("anthropic", key="sk-ant"), {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-ant"}, None),
    ],
)
def test_a_variable_that_is_not_used_is_named(
    saved: ModelChoice, environment: dict[str, str], named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    said = ignored_variables(saved)
    assert said == (f"{named} is set, but the choice made before is used{TAKES}" if named else None)


def test_a_catalog_decides_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert models_in_words(OWN) == "large-2 at https://llm.example.com/v1"
    monkeypatch.setenv("MESH_MODELS", "/etc/models.yaml")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
    assert models_in_words(OWN) == "the models of /etc/models.yaml"
    assert ignored_variables(DEMO) is None


async def test_an_address_that_had_a_key_needs_one() -> None:
    with pytest.raises(UsageError, match="needs a key; set OPENAI_API_KEY"):
        await choose_model(ModelOptions("openai-compatible", ask=False), OWN, Output())


async def test_the_same_provider_keeps_its_address_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider() as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-2")
        saved = ModelChoice("openai-compatible", provider.url, "default", "sk-1")
        options = ModelOptions("openai-compatible", ask=False)
        choice = await choose_model(options, saved, Output())
        assert choice == ModelChoice("openai-compatible", provider.url, "default", "sk-2")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/")
        assert await choose_model(options, OWN, Output()) == ModelChoice(
            "openai-compatible", provider.url, "large-2", "sk-2"
        )


@pytest.mark.parametrize(
    ("saved", "keys", "provider"),
    [
        (None, ("ANTHROPIC",), "anthropic"),
        (None, ("OPENAI", "ANTHROPIC"), "openai-compatible"),
        ("anthropic", ("OPENAI", "ANTHROPIC"), "anthropic"),
        ("openai-compatible", ("ANTHROPIC",), "anthropic"),
        ("demo", ("ANTHROPIC",), "anthropic"),
    ],
)
async def test_a_model_alone_is_of_the_provider_whose_key_is_set(
    saved: Provider | None, keys: tuple[str, ...], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedProvider() as server:
        for name in keys:
            monkeypatch.setenv(f"{name}_API_KEY", f"sk-{name}")
            monkeypatch.setenv(f"{name}_BASE_URL", server.url)
        before = None if saved is None else ModelChoice(saved, server.url, "large-2", "sk-1")
        choice = await choose_model(ModelOptions(model="default", ask=False), before, Output())
        assert (choice.provider, choice.model, choice.base_url) == (provider, "default", server.url)


async def test_a_model_alone_stays_with_the_provider_before() -> None:
    saved = ModelChoice("anthropic", "https://claude.example.com", "claude-sonnet-5-5", "sk-1")
    with pytest.raises(UsageError, match="needs a key; set ANTHROPIC_API_KEY"):
        await choose_model(ModelOptions(model="claude-opus-4-5", ask=False), saved, Output())


def test_a_choice_that_does_not_work_leaves_the_one_before(tmp_path: Path) -> None:
    for before in (None, OWN, DEMO):
        if before is not None:
            with saved_if_it_works(before, tmp_path):
                pass
        with pytest.raises(InterruptedError), saved_if_it_works(ModelChoice("anthropic", key="sk-3"), tmp_path):
            raise InterruptedError
        assert load_choice(tmp_path) == before
        assert (tmp_path / "model.key").exists() == (before == OWN)
