"""The npm package `ai` as the client of record: its own transport, reducer and chat read what a live runtime says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from agent_common.protocol import chunks as c
from agent_testing import Call, Say, ScriptedProvider

from ..live import Runtime, fresh
from ..node import CLIENT, PACKAGES, run_node, run_tests, titles

VERSIONS = [(sdk, () if sdk == max(PACKAGES) else pytest.mark.slow) for sdk in PACKAGES]
"""All versions, those before the newest one for the slow tests."""
TESTS = [
    pytest.param(file, sdk, title, id=f"{file.name.partition('.')[0]} {sdk}: {title}", marks=marks)
    for sdk, marks in VERSIONS
    for file in sorted(CLIENT.glob("*.test.mjs"))
    for title in titles(file)
]
Results = Callable[[Path, str], dict[str, str]]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("client")) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def results(runtime: Runtime) -> Results:
    """Each file runs once with each version, when the first of its tests is asked for."""
    return cache(lambda file, sdk: run_tests(runtime, file, sdk))


@pytest.mark.parametrize(("file", "sdk", "title"), TESTS)
def test_the_sdk_agrees(results: Results, file: Path, sdk: str, title: str) -> None:
    if fault := results(file, sdk)[title]:
        pytest.fail(fault, pytrace=False)


@pytest.mark.parametrize("sdk", [pytest.param(sdk, marks=marks) for sdk, marks in VERSIONS])
def test_a_reply_is_the_row_that_the_stream_named(runtime: Runtime, sdk: str) -> None:
    runtime.provider.script.replace([
        Say("First.", reasoning="I look", calls=(Call("glob", {"pattern": "*.none"}),)), Say("Then."),
    ])  # fmt: skip
    done = run_node(runtime, "ask.mjs", fresh("chat"), "look", sdk=sdk)
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout)
    [row] = runtime.sql("SELECT * FROM chat_messages WHERE id = ?", message["id"])
    assert row["role"] == "assistant"
    stored = [json.loads(part["data_json"]) for part in runtime.sql(
        'SELECT data_json FROM chat_parts WHERE message_id = ? ORDER BY "index"', message["id"]
    )]  # fmt: skip
    assert [_essence(part) for part in message["parts"]] == [_essence(part) for part in stored]


def _essence(part: dict[str, Any]) -> dict[str, Any]:
    """What a part says, without what only a stream or only a table has need of."""
    kept = ("type", "text", "toolCallId", "state", "input", "output")
    return {name: part[name] for name in kept if name in part}


@pytest.mark.parametrize("sdk", [pytest.param(sdk, marks=marks) for sdk, marks in VERSIONS])
def test_the_whole_vocabulary_is_the_sdks(runtime: Runtime, sdk: str) -> None:
    samples = [sample for kind in _kinds() for sample in _samples(kind)]
    assert len({sample["type"] for sample in samples}) == len(_kinds())
    done = run_node(runtime, "vocabulary.mjs", sdk=sdk, given="\n".join(map(json.dumps, samples)))
    assert done.returncode == 0, done.stderr
    done = run_node(runtime, "vocabulary.mjs", sdk=sdk, given='{"type": "text-delta", "id": "without a delta"}')
    assert done.returncode != 0


VALUES: dict[str, Any] = {
    "approvalDescriptor": {"why": "it writes"},
    "data": {"any": [1]},
    "dynamic": True,
    "finishReason": "content-filter",
    "inputEncoding": "json",
    "inputSchemaInput": {"path": "a"},
    "messageMetadata": {"usage": {"output": 3}},
    "preliminary": True,
    "providerExecuted": True,
    "providerMetadata": {"mesh": {"seen": 1}},
    "toolMetadata": {"metadata": {"exit_code": 1}},
    "transient": True,
}
"""A value for every field that does not hold plain text."""


def _kinds() -> list[type[c.Chunk]]:
    """Every class that a chunk may be of."""
    return [get_args(member)[0] for member in get_args(get_args(c.AnyChunk)[0])]


def _samples(kind: type[c.Chunk]) -> Iterator[dict[str, Any]]:
    """A chunk with nothing that may be left out, and one with everything."""
    tag = "data-sample" if kind is c.DataChunk else kind.model_fields["type"].default
    for names in (
        [name for name, field in kind.model_fields.items() if field.is_required()],
        list(kind.model_fields),
    ):
        said = {name: VALUES.get(name, f"some {name}") for name in names}
        chunk = c.chunk_adapter().validate_python({**said, "type": tag})
        assert isinstance(chunk, kind)
        yield json.loads(chunk.to_sse().removeprefix(b"data: "))
