"""What is no frame, and which shape a frame has (docs/protocols/mediation.md#21-shapes)."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol.work import (
    CONTROLS,
    FrameFault,
    Ping,
    UnknownControl,
    WorkBounds,
    decode,
    encode,
    read_frame,
)

from .samples import ACK, FIELDS, REQUEST, RESULT, SHAPES, SIGNAL


def fault(line: bytes | dict[str, Any]) -> FrameFault:
    with pytest.raises(FrameFault) as caught:
        read_frame(decode(json.dumps(line).encode() if isinstance(line, dict) else line))
    return caught.value


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"a":1} {"b":2}', "invalid_json"),
        (b'{"a":1}x', "invalid_json"),
        (b'\xef\xbb\xbf{"a":1}', "invalid_json"),
        (b'{"a":"\0"}', "invalid_json"),
        (b'{"a":NaN}', "invalid_json"),
        (b'{"a":[-Infinity]}', "invalid_json"),
        (b'{"a":1e999}', "invalid_json"),
        (b'{"a":[{"b":-1e999}]}', "invalid_json"),
        (b'{"a":' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"a":"\xff"}', "invalid_utf8"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_utf8"),
        (b'{"a":"\\ud800"}', "invalid_utf8"),
        (b'{"\\udc00":1}', "invalid_utf8"),
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b'{"a":{"b":1,"\\u0062":2}}', "duplicate_key"),
        (b"[1]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b"7", "not_an_object"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "too_deep"),
        (b'{"a":' + b"[" * 90_000 + b"]" * 90_000 + b"}", "too_deep"),
        (b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}", "too_many_values"),
        (b'{"a":' * 90_000, "too_deep"),
        (b'{"a":[' + b'{"":0},' * 60_000 + b"0]}", "too_many_values"),
    ],
)
def test_a_line_that_two_readers_could_take_for_two_things_is_refused(line: bytes, code: str) -> None:
    assert fault(line).code == code


def test_sixty_four_levels_are_taken() -> None:
    assert decode(b'{"a":' * 64 + b"1" + b"}" * 64)
    assert decode(b'{"a":' + b"[" * 63 + b'"x"' + b"]" * 63 + b"}")


def test_many_keys_and_one_of_them_twice_cost_no_square_of_time() -> None:
    line = b"{" + b",".join(b'"%d":1' % number for number in range(90_000)) + b',"89999":1}'
    before = time.process_time()
    assert fault(line).code == "duplicate_key"
    assert time.process_time() - before < 2


def test_a_fault_names_a_peers_words_on_one_line_that_can_be_written_down() -> None:
    for line in (b'{"\\ud800":1,"\\ud800":2}', b'{"a\\nINFO all is well":1}', b'{"x\\u001b[2J":{}}'):
        text = str(fault(line))
        assert text.isprintable()
        text.encode()
    assert str(fault({**SIGNAL, "a\nb": 1})).isprintable()
    assert len(str(fault({"k" * 5000: 1}))) < 200


@pytest.mark.parametrize("kind", SHAPES)
def test_each_shape_is_told_from_the_others(kind: str) -> None:
    shape, value = SHAPES[kind]
    assert type(read_frame(value)) is shape
    assert read_frame(decode(encode(read_frame(value)).strip())) == read_frame(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_strict_peer_refuses_a_field_it_does_not_know(kind: str) -> None:
    found = fault({**SHAPES[kind][1], "more": 1})
    assert found.code == "invalid_frame"
    assert "more" in str(found)


@pytest.mark.parametrize("kind", SHAPES)
def test_every_field_that_is_missing_is_named(kind: str) -> None:
    shape, value = SHAPES[kind]
    for name in value:
        with pytest.raises(FrameFault) as caught:
            read_frame({key: one for key, one in value.items() if key != name})
        assert caught.value.code == "unknown_shape" or name in str(caught.value), (shape, name)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({}, "unknown_shape"),
        ({"hello": 1}, "unknown_shape"),
        ({"request_id": "r"}, "unknown_shape"),
        ({"status": "completed"}, "unknown_shape"),
        ({**REQUEST, "status": "completed"}, "ambiguous_shape"),
        ({**SIGNAL, **RESULT}, "ambiguous_shape"),
        ({**ACK, "payload_ref": "x"}, "ambiguous_shape"),
        ({**ACK, "ctl": "ping"}, "ambiguous_shape"),
        ({"ctl": 7}, "invalid_control"),
        ({"ctl": "ping"}, "invalid_frame"),
        ({"ctl": "ping", "n": -1}, "invalid_frame"),
        ({"ctl": "drain", "deadline_s": 1e300}, "invalid_frame"),
        ({**REQUEST, "request_id": ""}, "invalid_frame"),
        ({**REQUEST, "request_id": "a\nb"}, "invalid_frame"),
        ({**REQUEST, "request_id": "x" * 201}, "invalid_frame"),
        ({**REQUEST, "content": 5}, "invalid_frame"),
        ({**REQUEST, "constraints_version": "0"}, "invalid_frame"),
        ({**REQUEST, "constraints_version": True}, "invalid_frame"),
        ({**REQUEST, "constraints_version": 2**53}, "invalid_frame"),
        ({**REQUEST, "submitted_at": "yesterday"}, "invalid_frame"),
        ({**REQUEST, "principal": "operator"}, "invalid_frame"),
        ({**REQUEST, "principal": {**REQUEST["principal"], "verified": "yes"}}, "invalid_frame"),
        ({**REQUEST, "principal": {**REQUEST["principal"], "admin": True}}, "invalid_frame"),
        ({**REQUEST, "bounds": {"max_tokens": 0}}, "invalid_frame"),
        ({**REQUEST, "bounds": {"max_dollars": 1}}, "invalid_frame"),
        ({**RESULT, "status": "done"}, "invalid_frame"),
        ({**SIGNAL, "signal": "started"}, "invalid_frame"),
    ],
)
def test_what_no_shape_or_several_fit_is_refused(value: dict[str, Any], code: str) -> None:
    assert fault(value).code == code


def test_a_fault_says_which_request_it_was_about() -> None:
    assert fault({**REQUEST, "more": 1}).request_id == "req-1"
    assert fault({"request_id": "req-2"}).request_id == "req-2"
    assert fault({"request_id": "two\nlines"}).request_id is None


def test_a_control_frame_that_is_younger_than_we_are_is_no_fault() -> None:
    assert read_frame({"ctl": "teleport", "to": "mars"}) == UnknownControl("teleport")
    assert read_frame({"ctl": "ping", "n": 1, "colour": "blue"}) == Ping(n=1)


def test_there_is_a_sample_of_every_control_frame() -> None:
    assert FIELDS.keys() == CONTROLS.keys()


def test_what_is_none_is_not_written() -> None:
    assert encode(WorkBounds(max_tokens=5)) == b'{"max_tokens":5}\n'
    assert encode(Ping(n=3)) == b'{"ctl":"ping","n":3}\n'


def test_a_frame_is_one_line_whatever_its_text() -> None:
    line = encode({**REQUEST, "content": "a\nb\r\u2028\0\ud800"})
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert decode(line[:-1])["content"] == "a\nb\r\u2028\0?"


leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.dictionaries(
    st.sampled_from([*REQUEST, *RESULT, *SIGNAL, *ACK, "ctl", "ok", "payload_ref", "mutation_ref", "n", "bounds"]),
    st.recursive(leaf, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below)),
)


@given(values)
def test_no_object_crashes_the_reader(value: dict[str, Any]) -> None:
    told = "nothing"
    try:
        read_frame(decode(json.dumps(value).encode()))
    except FrameFault as found:
        told = str(found)
    assert told.isprintable()


@dataclass(frozen=True)
class Members:
    """An object as it is written: a key may stand twice."""

    pairs: tuple[tuple[str, object], ...]


texts = st.text(st.sampled_from('ab":{}[]\\,é \n'), max_size=4)
written = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(texts, inner), max_size=3).map(lambda two: Members(tuple(two)))
    ),
    max_leaves=8,
)
gaps = st.sampled_from(("", " ", "\t "))


def line_of(value: object, gap: str, *, ascii_only: bool) -> str:
    if isinstance(value, Members):
        pairs = (
            (json.dumps(key, ensure_ascii=ascii_only), line_of(one, gap, ascii_only=ascii_only))
            for key, one in value.pairs
        )
        return "{" + f"{gap},{gap}".join(f"{key}{gap}:{gap}{one}" for key, one in pairs) + "}"
    if isinstance(value, list):
        return f"[{', '.join(line_of(one, gap, ascii_only=ascii_only) for one in cast('list[object]', value))}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def twice(value: object) -> bool:
    """Some object has a key twice."""
    if isinstance(value, Members):
        keys = [key for key, _ in value.pairs]
        return len(set(keys)) < len(keys) or any(twice(one) for _, one in value.pairs)
    return isinstance(value, list) and any(twice(one) for one in cast("list[object]", value))


@given(st.lists(st.tuples(texts, written), max_size=4), gaps, st.booleans())
def test_an_object_is_read_as_it_is_written_or_has_a_key_twice(
    pairs: list[tuple[str, object]], gap: str, ascii_only: bool
) -> None:
    value = Members(tuple(pairs))
    line = line_of(value, gap, ascii_only=ascii_only)
    if twice(value):
        assert fault(line.encode()).code == "duplicate_key"
    else:
        assert decode(line.encode()) == json.loads(line)
