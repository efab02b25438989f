"""What is text, and in which letters."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.tools.web.content_decoding import ContentKind, decode_body, detect_kind


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"x", ContentKind("text/html", True, True)),
        ("TEXT/Html", b"x", ContentKind("text/html", True, True)),
        ("application/xhtml+xml", b"<html/>", ContentKind("application/xhtml+xml", True, True)),
        ("text/markdown", b"<html>", ContentKind("text/markdown", True, False)),
        ("application/json", b"{}", ContentKind("application/json", True, False)),
        ("application/problem+json", b"{}", ContentKind("application/problem+json", True, False)),
        ("image/svg+xml", b"<svg/>", ContentKind("image/svg+xml", True, False)),
        ("image/png", b"\x89PNG", ContentKind("image/png", False, False)),
        ("application/pdf", b"%PDF", ContentKind("application/pdf", False, False)),
        ("application/zip", b"PK", ContentKind("application/zip", False, False)),
        ("text/plain", b"PK\0\0", ContentKind("text/plain", False, False)),
        ("text/plain; charset=utf-16le", b"h\0i\0", ContentKind("text/plain", True, False)),
        ("text/plain", b"\xff\xfeh\0i\0", ContentKind("text/plain", True, False)),
        ("", b"just text", ContentKind("", True, False)),
        ("", b"\n <!-- a --> <!-- b --><!DOCTYPE html>", ContentKind("", True, True)),
        ("application/octet-stream", b"<html>", ContentKind("application/octet-stream", True, True)),
        ("application/octet-stream", b"\0\1", ContentKind("application/octet-stream", False, False)),
        ("", b"<!---->" * 1000 + b"x", ContentKind("", True, False)),
    ],
)
def test_kinds(content_type: str, body: bytes, kind: ContentKind) -> None:
    assert detect_kind(content_type, body) == kind


FEED = '<?xml version="1.0" encoding="windows-1251"?><rss>дом</rss>'
META = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">дом'


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=UTF-8", "ü".encode(), "ü"),
        ('text/plain; charset="iso-8859-1"', b"\xfc \x80", "ü €"),
        ("text/plain; charset=Shift_JIS", "日本".encode("shift_jis"), "日本"),
        ("text/plain", "ü".encode(), "ü"),
        ("text/plain", b"\xfc\x80", "ü€"),
        ("text/plain", "ab日".encode()[:-1], "ab\ufffd"),
        ("text/plain", "\ufeffhi".encode(), "hi"),
        ("text/plain; charset=iso-8859-1", "hi".encode("utf-16"), "hi"),
        ("text/html", META.encode("cp1251"), META),
        ("text/html; charset=utf-8", META.encode(), META),
        ("text/html", b'<meta charset="utf-16">heron', '<meta charset="utf-16">heron'),
        ("application/rss+xml", FEED.encode("windows-1251"), FEED),
        ("text/xml", FEED.replace("windows-1251", "utf-16").encode(), FEED.replace("windows-1251", "utf-16")),
        ("text/xml; charset=utf-8", FEED.encode(), FEED),
        ("text/plain; charset=zlib", b"abc", "abc"),
        ("text/plain; charset=punycode", b"abc-", "abc-"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/plain; charset=iso-8859-99", b"abc", "abc"),
    ],
)
def test_letters(content_type: str, body: bytes, text: str) -> None:
    assert decode_body(content_type, body, html="html" in content_type) == text


@given(st.text(max_size=30), st.binary(max_size=200), st.booleans())
def test_everything_becomes_text(content_type: str, body: bytes, html: bool) -> None:
    detect_kind(content_type, body)
    assert isinstance(decode_body(content_type, body, html=html), str)
    assert isinstance(decode_body(f"text/html; charset={content_type}", body, html=html), str)


def test_no_page_takes_long() -> None:
    """Each tag is near enough to the blanks to be tried with all of them."""
    started = time.process_time()
    for page in (b"<meta" * 99 + b"charset=" + b" " * 7_600, b"<meta charset='" + b" " * 8_000):
        decode_body("text/html", page, html=True)
    assert time.process_time() - started < 2
