from __future__ import annotations

import pytest

from agent_runtime.workspace import Preconditions

TAG = '"1a2b"'


@pytest.mark.parametrize(
    ("match", "none_match", "etag", "fault"),
    [
        (None, None, TAG, None),
        (None, None, None, None),
        (TAG, None, TAG, None),
        ('"0", "1a2b"', None, TAG, None),
        ('"0","1a2b"', None, TAG, None),
        ("*", None, TAG, None),
        ("*", None, None, "there is no such file"),
        (TAG, None, None, "there is no such file"),
        ('"0"', None, TAG, "it has changed"),
        ('W/"1a2b"', None, TAG, "it has changed"),
        ("1a2b", None, TAG, "it has changed"),
        ("", None, TAG, "it has changed"),
        ('"a,b", "1a2b"', None, TAG, None),
        (None, "*", None, None),
        (None, "*", TAG, "it exists already"),
        (None, TAG, TAG, "it exists already"),
        (None, 'W/"1a2b"', TAG, "it exists already"),
        (None, '"0"', TAG, None),
        (TAG, "*", TAG, "it exists already"),
    ],
)
def test_what_forbids_a_change(match: str | None, none_match: str | None, etag: str | None, fault: str | None) -> None:
    assert Preconditions.from_headers(match, none_match).failure(etag) == fault


def test_what_a_reader_has_already() -> None:
    assert Preconditions.from_headers(None, f"{TAG}").is_not_modified(TAG)
    assert Preconditions.from_headers(None, f'W/"x", W/{TAG}').is_not_modified(TAG)
    assert Preconditions.from_headers(None, "*").is_not_modified(TAG)
    assert not Preconditions.from_headers(None, '"x"').is_not_modified(TAG)
    assert not Preconditions.from_headers(TAG, None).is_not_modified(TAG)
