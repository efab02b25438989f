"""Fingerprints, times, offers, proofs of identity, and the loose dialect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agent_common.protocol.work import (
    FrameFault,
    Offer,
    Stamp,
    WorkRequest,
    compute_mac,
    decode,
    encode,
    new_challenge,
    new_sid,
    payload_hash,
    read_loose_request,
    read_loose_result,
    read_loose_signal,
    to_rfc3339,
    verify_mac,
)

from .samples import AT, REQUEST, requests

STAMP = TypeAdapter[str](Stamp)


def print_of(**more: Any) -> str:
    return WorkRequest.model_validate({**REQUEST, **more}).fingerprint()


def test_the_fingerprint_is_the_one_that_ledgers_hold() -> None:
    assert print_of() == "f9b174aa7cb7abdc5a2de1bb6325241f93a4754da7242f4d8ba6c6ef3e98604c"
    assert (
        print_of(content="gr\u00fc\u00dfe <&> \U0001f600", bounds={"max_tokens": 5})
        == "f3ae519bf58b0f1fc4fa7e5ea6d5af9d7cbcc199e2ce7462219930ac774daddf"
    )


def test_a_retry_is_the_same_work() -> None:
    again = {"audit_ref": "attempt-2", "submitted_at": "2027-01-01T00:00:00Z", "request_id": "another"}
    assert print_of(**again) == print_of()


def test_the_fingerprint_is_taken_after_defaults() -> None:
    assert print_of(content_kind="text", bounds=None) == print_of() == print_of(bounds={})
    assert print_of(bounds={"max_tokens": None}) == print_of()
    assert print_of(bounds={"max_tokens": 5, "max_tool_calls": None}) == print_of(bounds={"max_tokens": 5})
    principal = {**REQUEST["principal"], "verified_by": None, "authorization_scope": []}
    assert print_of(principal=dict(reversed(principal.items()))) == print_of()


@pytest.mark.parametrize(
    "other",
    [
        {"content": "pong"},
        {"content": "ping "},
        {"content_kind": "json"},
        {"constraints_version": 1},
        {"bounds": {"max_tokens": 5}},
        {"bounds": {"max_tool_calls": 0}},
        {"principal": {**REQUEST["principal"], "name": "eve"}},
        {"principal": {**REQUEST["principal"], "verified": False}},
        {"principal": {**REQUEST["principal"], "authorization_scope": ["read"]}},
    ],
)
def test_other_work_has_another_fingerprint(other: dict[str, Any]) -> None:
    assert print_of(**other) != print_of()


@given(requests)
def test_a_fingerprint_survives_the_wire_and_any_order_of_fields(request: WorkRequest) -> None:
    value = decode(encode(request).strip())
    assert WorkRequest.model_validate(dict(reversed(value.items()))).fingerprint() == request.fingerprint()


@pytest.mark.parametrize(
    "text",
    [
        *("1970-01-01T00:00:00Z", AT, "2026-11-22T02:19:05.250123+00:00", "2026-11-22t04:19:05.25+02:00"),
        *("2026-11-22T02:19:05.250999999z", "0001-01-01T00:00:00+23:59"),
    ],
)
def test_times_are_kept_as_they_are_written(text: str) -> None:
    assert STAMP.validate_python(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-11-22", "2026-11-22T02:19:05", "2026-11-22 02:19:05Z", "20261122T021905Z"),
        *("2026-W47-7T02:19:05Z", "2026-11-22T02:19Z", "2026-11-22T02:19:05,5Z", "2026-13-22T02:19:05Z"),
        *("2026-11-22T02:19:05Z\n", "2026-11-22T02:19:05+25:00", "\u0662026-11-22T02:19:05Z"),
    ],
)
def test_what_is_no_rfc_3339_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        STAMP.validate_python(text)


@given(st.integers(0, 250_000_000_000_000))
def test_a_time_is_written_so_that_it_can_be_read(ms: int) -> None:
    text = to_rfc3339(ms)
    assert STAMP.validate_python(text) == text
    assert (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) == ms


def test_an_offer_is_read_as_it_was_written() -> None:
    offer = Offer(4, 1 << 20, new_sid())
    assert Offer.parse(str(offer)) == offer
    again = Offer(1, 1 << 20, new_sid(), 2**53 - 1)
    assert Offer.parse(str(again)) == again
    reporting = Offer(1, 1 << 20, new_sid(), task_results=True)
    assert Offer.parse(str(reporting)) == reporting
    reached = Offer(1, 1 << 20, new_sid(), api=True)
    assert Offer.parse(str(reached)) == reached
    assert Offer.parse(f"agent 1.0 is up; {offer} and more words") == offer
    assert Offer.parse(f"med/1 zstd=1 sid={offer.sid}") == Offer(1, 1 << 20, offer.sid)
    assert Offer.parse(f"med/1 win=99999 sid={offer.sid}") == Offer(1024, 1 << 20, offer.sid)


@pytest.mark.parametrize(
    "detail",
    [
        *(None, "", "up and running", "med/1", "med/1 win=1 max=2048", "med/2 win=1 max=2048 sid=abcdefgh"),
        *("xmed/1 sid=abcdefgh", "med/1 win=0 sid=abcdefgh", "med/1 win=x sid=abcdefgh", "med/1 sid=short"),
        *(
            "med/1 max=1 sid=abcdefgh",
            "med/1 win=\u0664 sid=abcdefgh",
            "med/1 sid=abcdefg\u00e4",
            "med/1 max=99999999999999999 sid=abcdefgh",
        ),
    ],
)
def test_what_is_no_offer_is_none(detail: str | None) -> None:
    assert Offer.parse(detail) is None


def test_sids_and_challenges_never_repeat() -> None:
    assert len({new_sid() for _ in range(1000)} | {new_challenge() for _ in range(1000)}) == 2000


PROOF: dict[str, Any] = {"challenge": "c", "sid": "s-1", "agent_id": "agent-a", "epoch": 7}


def test_a_mac_is_the_one_that_the_page_describes() -> None:
    assert (
        compute_mac(b" key\n", **PROOF)
        == compute_mac(b"key", **PROOF)
        == "90aa09bfb677b74a6c83a826cbcb0ef5af3c0cd759922e82222cbdc77e1e5c4b"
    )


@pytest.mark.parametrize("other", [{"challenge": "d"}, {"sid": "s-2"}, {"agent_id": "agent-b"}, {"epoch": 8}])
def test_a_mac_holds_for_one_attachment_only(other: dict[str, Any]) -> None:
    mac = compute_mac(b"key", **PROOF)
    assert verify_mac(mac, b"key\n", **PROOF)
    assert not verify_mac(mac, b"key", **{**PROOF, **other})
    assert not verify_mac(mac, b"other", **PROOF)


@pytest.mark.parametrize("mac", ["", "x", "\u00e4" * 64, "\ud800", "0" * 64])
def test_no_other_text_is_a_good_mac(mac: str) -> None:
    assert not verify_mac(mac, b"key", **PROOF)


def test_an_empty_key_proves_nothing() -> None:
    assert not verify_mac(compute_mac(b"\n", **PROOF), b" ", **PROOF)


def test_the_hash_of_a_payload_is_over_its_raw_bytes() -> None:
    assert payload_hash(b"{}") == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert payload_hash(b"{ }") != payload_hash(b"{}")


# the loose dialect


def test_a_principal_that_is_a_string_is_an_unverified_user() -> None:
    value = {"request_id": "req-001", "principal": "operator", "content": "ping"}
    request = read_loose_request(value, now=AT, constraints_version=3)
    assert request.principal.model_dump(exclude_defaults=True) == {
        "name": "operator",
        "kind": "user",
        "verified": False,
    }
    assert (request.constraints_version, request.submitted_at, request.audit_ref) == (3, AT, "req-001")


def test_a_loose_request_may_hold_json_and_fields_that_nobody_knows() -> None:
    value = {"request_id": "r", "principal": "o", "content": {"a": [1, "\u00e4"]}, "colour": "blue"}
    request = read_loose_request(value, now=AT, constraints_version=0)
    assert (request.content, request.content_kind) == ('{"a": [1, "\u00e4"]}', "json")


@pytest.mark.parametrize(
    "value",
    [
        *({}, {"request_id": "r", "principal": "o"}, {"request_id": "r", "content": "c"}),
        {"request_id": 5, "principal": "o", "content": "c"},
        {"request_id": "r", "principal": "", "content": "c"},
        {"request_id": "r", "principal": ["o"], "content": "c"},
        {"request_id": "r", "principal": "o", "content": None},
        {"request_id": "r", "principal": "o", "content": "c", "bounds": {"max_dollars": 1}},
    ],
)
def test_a_loose_request_must_still_say_who_and_what(value: dict[str, Any]) -> None:
    with pytest.raises(FrameFault):
        read_loose_request(value, now=AT, constraints_version=0)


@pytest.mark.parametrize(("ok", "status"), [(True, "completed"), (False, "failed")])
def test_ok_stands_for_a_status(ok: bool, status: str) -> None:
    result = read_loose_result({"request_id": "r", "ok": ok, "content": "pong", "x": 1}, now=AT, audit_ref="a")
    assert (result.status, result.content, result.completed_at, result.audit_ref) == (status, "pong", AT, "a")


def test_a_loose_result_may_hold_json_and_what_it_says_itself_stands() -> None:
    value = {"request_id": "r", "status": "yielded", "ok": True, "content": {"n": 1}, "audit_ref": "mine"}
    result = read_loose_result(value, now=AT, audit_ref="a")
    assert (result.status, result.content, result.audit_ref) == ("yielded", '{"n": 1}', "mine")


@pytest.mark.parametrize("more", [{}, {"ok": "yes"}, {"ok": 1}, {"ok": None}, {"status": "done"}])
def test_a_loose_result_must_still_say_how_it_ended(more: dict[str, Any]) -> None:
    with pytest.raises(FrameFault):
        read_loose_result({"request_id": "r", **more}, now=AT, audit_ref="a")


def test_a_loose_signal_is_filled_in() -> None:
    signal = read_loose_signal({"signal": "accepting", "request_id": "r", "x": 1}, now=AT, agent_id="agent-a")
    assert (signal.signal, signal.request_id, signal.agent_id) == ("accepting", "r", "agent-a")
    with pytest.raises(FrameFault):
        read_loose_signal({"signal": "hello"}, now=AT, agent_id="a")
