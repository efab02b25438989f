"""What docs/protocols says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from pydantic import BaseModel

from agent_common.protocol.work import (
    CONTROLS,
    decode,
    encode,
    read_loose_request,
    read_loose_result,
    read_loose_signal,
    work_schemas,
)
from scripts import protocols

from .samples import AT, REQUEST, SHAPES, frames

ROOT = Path(__file__).parents[4]
SCHEMAS = work_schemas()


def test_the_pages_are_up_to_date() -> None:
    for path, text in protocols.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: make docs"


@given(frames)
def test_every_frame_that_we_write_fits_its_schema(frame: BaseModel) -> None:
    value = decode(encode(frame).strip())
    name = f"ctl-{value['ctl']}" if "ctl" in value else type(frame).__name__
    jsonschema.validate(value, SCHEMAS[name])


@pytest.mark.parametrize("kind", SHAPES)
def test_the_schemas_refuse_what_a_strict_peer_refuses(kind: str) -> None:
    shape, value = SHAPES[kind]
    wrong: list[dict[str, Any]] = [
        {**value, "more": 1},
        *({k: v for k, v in value.items() if k != name} for name in value),
    ]
    for one in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(one, SCHEMAS[shape.__name__])


def test_the_table_of_dialects_is_true() -> None:
    """Take from a strict frame what the table says is filled in or may be left out: the loose reader still takes it."""
    for shape, value in (
        ("WorkRequest", REQUEST),
        ("WorkResult", SHAPES["result"][1]),
        ("LifecycleSignal", SHAPES["signal"][1]),
    ):
        kept = {name: one for name, one in value.items() if protocols.LOOSE[shape].get(name) == "the same"}
        if shape == "WorkRequest":
            kept |= {"principal": "operator", "content": {"any": "JSON"}}
            filled = read_loose_request(kept, now=AT, constraints_version=7)
            assert (filled.content_kind, filled.constraints_version) == ("json", 7)
        elif shape == "WorkResult":
            assert read_loose_result({**kept, "ok": True, "content": [1]}, now=AT, audit_ref="a").status == "completed"
        else:
            assert read_loose_signal(kept, now=AT, agent_id="a").observed_at == AT
        assert protocols.LOOSE[shape].keys() <= SCHEMAS[shape]["properties"].keys()


def test_every_control_frame_is_written_by_one_of_our_ends_and_read_by_the_other() -> None:
    guest, host = (_source(folder) for folder in ("agent_runtime/mediation", "agent_host/listener"))
    for kind in CONTROLS.values():
        written = re.compile(rf"\b{kind.__name__}\(\s*\w+=")
        ends = ((guest, host), (host, guest))
        assert any(written.search(one) and kind.__name__ in other for one, other in ends), f"nobody speaks {kind.ctl}"


def _source(folder: str) -> str:
    return "".join(path.read_text("utf-8") for path in (ROOT / folder).rglob("*.py"))
