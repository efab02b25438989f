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
        ({"data": [PRICED, {"object": "model"}, "b", None, {"id": 3}]}, [ModelCard.model_validate(PRICED)]),
        ([{"id": "a", "context_length": 32768}, {"object": "model"}], [ModelCard(id="a", context_limit=32768)]),
        ([{"id": "a", "max_model_len": 8192, "pricing": {"input": "0.1"}}], [ModelCard(id="a", context_limit=8192)]),
        ({"models": [{"name": "a", "context_window": "big"}]}, [ModelCard(id="a")]),
        ([], []),
    ],
)
async def test_a_list_in_any_shape(body: Any, cards: list[ModelCard]) -> None:
    assert await cards_of(Raw((json.dumps(body),), headers={"content-type": "application/json"})) == cards


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
