"""Lists of models in the shapes in which endpoints give them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_runtime.mesh import ModelCatalog
from agent_testing import ManualClock, Raw, ScriptedProvider
from tests.e2e.providers.cases import corpus

PRICED = {"id": "a", "context_limit": 9000, "pricing": {"input": 1, "output": 2}, "capabilities": ["chat"]}


@pytest.mark.parametrize(
    ("body", "cards"),
    [
        ({"object": "list", "data": [{"id": "a", "object": "model"}]}, [ModelCard(id="a")]),
        ({"data": [PRICED, {"object": "model"}, "", None, {"id": 3}]}, [ModelCard.model_validate(PRICED)]),
        (["a", {"slug": "b", "name": "B"}, {"model_name": "c"}], [ModelCard(id=name) for name in "abc"]),
        ({"models": [{"id": "a"}], "data": []}, [ModelCard(id="a")]),
        ({"object": "list", "data": None}, []),
        ({"result": [{"id": "a"}], "success": True}, [ModelCard(id="a")]),
        ([{"id": "a", "context_length": 32768}, {"object": "model"}], [ModelCard(id="a", context_limit=32768)]),
        ([{"id": "a", "max_model_len": 8192, "pricing": {"input": "0.1"}}], [ModelCard(id="a", context_limit=8192)]),
        ({"models": [{"name": "a", "context_window": "big"}]}, [ModelCard(id="a")]),
        ([], []),
    ],
)
async def test_a_list_in_any_shape(body: Any, cards: list[ModelCard]) -> None:
    assert await cards_of(Raw((json.dumps(body),), headers={"content-type": "application/json"})) == cards


@pytest.mark.parametrize(
    "members",
    [
        {"context_length": "8192"},
        {"context_length": 8192.0},
        {"max_input_tokens": 8192},
        {"top_provider": {"context_length": 8192}},
        {"limits": {"max_input_tokens": 8192}},
        {"metadata": {"context_length": 8192}},
        {"capabilities": {"limits": {"max_context_window_tokens": 8192}}},
        {"meta": {"n_ctx_train": 131072, "n_ctx": 8192}},
        {"max_context_length": 131072, "loaded_context_length": 8192},
        {"context_limit": 8192, "context_length": 9000},
        {"context_length": True, "max_model_len": 8192},
        {"context_length": "9" * 40, "max_model_len": 8192},
        {"context_size": 8192},
        {"contextWindow": 8192},
        {"limit": {"context": 8192, "output": 512}},
        {"context_length": 131072, "top_provider": {"context_length": 8192}},
        {"providers": [{"context_length": 131072}, {"context_length": 8192}, {"provider": "odd"}, None]},
        {"context_length": 8192, "providers": [{"context_length": 131072}]},
    ],
)
async def test_a_window_under_any_name(members: dict[str, Any]) -> None:
    body = json.dumps({"data": [{"id": "a", **members}]})
    [card] = await cards_of(Raw((body,), headers={"content-type": "application/json"}))
    assert (card.id, card.context_limit) == ("a", 8192)


async def test_the_longest_answer_under_any_name() -> None:
    entries = [{"id": "a", "top_provider": {"max_completion_tokens": 512}}, {"id": "a", "max_output_tokens": "512"}]
    entries += [{"id": "a", "max_output_length": 512}, {"id": "a", "limit": {"context": 8192, "output": 512}}]
    for entry in entries:
        [card] = await cards_of(Raw((json.dumps([entry]),), headers={"content-type": "application/json"}))
        assert card.max_output_tokens == 512


async def test_a_list_that_is_compressed() -> None:
    body = gzip.compress(b'{"data": [{"id": "a"}]}').decode("latin-1")
    sent = Raw((body,), headers={"content-encoding": "gzip"}, encoding="latin-1")
    assert await cards_of(sent) == [ModelCard(id="a")]


async def test_the_case_of_the_corpus() -> None:
    (case,) = (case for case in corpus() if case.id == "E21")
    assert [card.id for card in await cards_of(case.answer)] == case.want["models"]


async def cards_of(models: Raw) -> list[ModelCard]:
    with ScriptedProvider(models=models) as provider:
        catalog = ModelCatalog(provider.url, {}, ManualClock())
        try:
            return list(await catalog.models())
        finally:
            await catalog.close()
