"""A provider is tried before it is used."""

from __future__ import annotations

import json

import pytest

from agent_client.cli.local.check_model import check_model
from agent_client.cli.local.model_choice import ModelChoice
from agent_testing import Raw, ScriptedProvider

JSON = {"content-type": "application/json"}
EXPIRED = [{"error": {"code": 400, "message": "no", "details": [{"reason": "API_KEY_INVALID"}]}}]


@pytest.mark.parametrize(
    ("status", "body", "refused"),
    [
        (401, {}, True),
        (403, {}, True),
        (400, EXPIRED, True),
        (400, {"error": "Unknown parameter: 'limit'"}, False),
    ],
)
async def test_a_refused_key_is_found_whatever_its_status(status: int, body: object, refused: bool) -> None:
    with ScriptedProvider(models=Raw((json.dumps(body),), status, JSON)) as provider:
        fault = await check_model(ModelChoice("openai-compatible", provider.url, "large-3", "sk-wrong"))
    assert (fault is not None and f"refuses the key ({status})" in fault.text) == refused


async def test_an_address_without_its_v1_is_found() -> None:
    with ScriptedProvider() as provider:
        assert await check_model(ModelChoice("openai-compatible", provider.url, "default")) is None
        base = provider.url.removesuffix("/v1")
        fault = await check_model(ModelChoice("openai-compatible", base, "default"))
    assert fault is not None
    assert fault.text == f"{base} has no models, but {provider.url} does: add the /v1"


async def test_a_model_that_is_not_listed_is_told_with_one_to_take() -> None:
    listed = Raw((json.dumps({"data": [{"id": "large-2"}, {"id": "small-1"}]}),), 200, JSON)
    with ScriptedProvider(models=listed) as provider:
        for wrong, offered in (("small-2", "small-1"), ("nope", "large-2")):
            fault = await check_model(ModelChoice("openai-compatible", provider.url, wrong))
            assert fault is not None
            assert (fault.listed, fault.certain) == (offered, False)


async def test_an_address_without_any_list_of_models_is_taken() -> None:
    with ScriptedProvider(models=Raw((), 404)) as provider:
        for url in (provider.url, provider.url.removesuffix("/v1")):
            assert await check_model(ModelChoice("openai-compatible", url, "default")) is None
