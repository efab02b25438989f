from __future__ import annotations

import pytest

from agent_common.api import RangeNotSatisfiable, parse_range


@pytest.mark.parametrize(
    ("header", "size", "wanted"),
    [
        (None, 10, None),
        ("", 10, None),
        ("bytes=0-0", 10, (0, 1)),
        ("bytes=2-4", 10, (2, 5)),
        ("Bytes = 2 - 4 ", 10, (2, 5)),
        ("bytes=2-", 10, (2, 10)),
        ("bytes=2-99", 10, (2, 10)),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-99", 10, (0, 10)),
        ("bytes=9-9", 10, (9, 10)),
        ("bytes=4-2", 10, None),
        ("bytes=-", 10, None),
        ("bytes=0-1,3-4", 10, None),
        ("lines=0-1", 10, None),
        ("bytes=a-b", 10, None),
        ("bytes=" + "9" * 50 + "-", 10, None),
        ("bytes=\u0663-", 10, None),
        ("bytes=" + " " * 1000 + "2-4", 10, (2, 5)),
        ("bytes=" + " " * 1020 + "2-4", 10, None),
    ],
)
def test_the_piece_that_is_wanted(header: str | None, size: int, wanted: tuple[int, int] | None) -> None:
    assert parse_range(header, size) == wanted


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=10-12", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_what_lies_beyond_the_end(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable):
        parse_range(header, size)
