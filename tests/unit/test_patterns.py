"""The scan of the product's patterns finds those that grow, and takes no others for them."""

from __future__ import annotations

import re
import sys

import pytest

from scripts.patterns.growth import grows

GROWING = [
    (r"\s+$", 0, "search"),
    (r"(a+)+b", 0, "match"),
    (r"(a|aa)+$", 0, "fullmatch"),
    (r"\w+@\w+", 0, "search"),
    (r"[^\n]*\n", 0, "sub"),
    (r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*([<>=].*)?", 0, "fullmatch"),
    (r"^# /// (\w+)$\s((^#(| .*)$\s)+)^# ///$", re.MULTILINE, "finditer"),
    (r"<(?=\s*/?\s*tag)", 0, "sub"),
    (r"(`{3,}|~{3,})x\1", 0, "sub"),
    (rb"bytes=\s*,?\s*\d", 0, "match"),
    (r"A+(?<=b)", re.IGNORECASE, "search"),
    (r"first|<\|begin\|>\s*(?P<name>[^<]+?)\s*<\|end\|>", 0, "match"),
    (r'"((?:[^"\\]|\\.)*)"', re.DOTALL, "sub"),
]
LINEAR = [
    (r"a{1,100}b", 0, "search"),
    (r"\s+$", 0, "match"),
    (r"(?:a+b)*c", 0, "match"),
    (r"(?>a+)b", 0, "match"),
    (r"[\w.-]++\s*+(?:\[[^\]]*+\])?+\s*+([<>=].*)?", 0, "fullmatch"),
    (r"(?<!\s)\s++$", 0, "sub"),
    (r"<(?=\s*+/?+\s*+tag)", 0, "sub"),
    (r"BEGIN.*?(?:END|\Z)", re.DOTALL, "sub"),
    (r'"(?:[^"\\]|\\.)*"', 0, "match"),
    (r"(?:(a)|b)(?(1)c|d)", 0, "search"),
    (r"first|<\|begin\|>(?P<name>[^<]++)<\|end\|>", 0, "match"),
    (r'"((?:[^"\\]++|\\.)*+)("?)', re.DOTALL, "sub"),
]


@pytest.mark.parametrize(("pattern", "flags", "how"), GROWING)
def test_what_grows_is_found(pattern: str | bytes, flags: int, how: str) -> None:
    assert grows(pattern, flags, how) is not None


@pytest.mark.parametrize(("pattern", "flags", "how"), LINEAR)
def test_what_is_linear_is_left_alone(pattern: str | bytes, flags: int, how: str) -> None:
    assert grows(pattern, flags, how) is None


def test_the_recursion_limit_is_as_it_was() -> None:
    before = sys.getrecursionlimit()
    assert grows(r"\s+$", 0, "search")
    assert sys.getrecursionlimit() == before
