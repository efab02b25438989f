"""Decode content from the web: which types are text, and in which charset."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

SAMPLE_SIZE = 8192
_TEXT = frozenset(
    {
        *("application/ecmascript", "application/graphql", "application/javascript", "application/json"),
        *("application/jsonl", "application/sql", "application/toml", "application/x-javascript", "application/x-json"),
        *("application/x-ndjson", "application/x-sh", "application/x-tex", "application/x-yaml", "application/xml"),
        *("application/xml-dtd", "application/yaml", "application/x-www-form-urlencoded", "application/typescript"),
    }
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_UNKNOWN = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown", "content/unknown"})
_LOOKS_LIKE_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype html|html|head|body)\b", re.I | re.S
)
# No two quantifiers of these share a run of blanks, and a tag ends where the next one begins: pages choose the text.
_META = re.compile(rb"<meta[^<>]{0,500}?charset\s{0,20}+=\s{0,20}+(?:[\"']\s{0,20}+)?([A-Za-z0-9_:.-]{1,40})", re.I)
_XML = re.compile(rb"\s{0,20}<\?xml\b[^<>]{0,200}?\bencoding\s{0,20}=\s{0,20}[\"']([A-Za-z0-9_:.-]{1,40})")
_PARAMETER = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9_:.-]{1,40})", re.I)
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Only character sets: Python also calls compression and other things encodings, and some of those take forever.
_CHARSETS = re.compile(
    r"us-ascii|ascii|utf-?8|utf-?16(?:le|be)?|latin-?1|iso-?8859-?\d{1,2}|(?:windows|cp)-?125\d|koi8-[ru]|gb2312|gbk"
    r"|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr)|shift[_-]jis|sjis|iso-2022-jp|macintosh|tis-620",
    re.I,
)
# As browsers do: content in one of these charsets is decoded with its superset.
_CHARSET_SUPERSETS = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
}


@dataclass(frozen=True, slots=True)
class ContentKind:
    """The type of a body."""

    type: str
    """The media type from the server, in lower case and without parameters."""
    is_text: bool
    is_html: bool


def detect_kind(content_type: str, body: bytes) -> ContentKind:
    """Determine the type from the header, or if that is missing from the beginning of the body."""
    named = content_type.partition(";")[0].strip().lower()
    if named in _UNKNOWN:
        text = not looks_binary(body)
        return ContentKind(named, text, text and _LOOKS_LIKE_HTML.match(body[:SAMPLE_SIZE]) is not None)
    text = named.startswith("text/") or named in _TEXT or named.endswith(("+json", "+xml", "+yaml"))
    text = text and ("utf-16" in content_type.lower() or not looks_binary(body))
    return ContentKind(named, text, text and named in _HTML)


def looks_binary(body: bytes) -> bool:
    return b"\0" in body[:SAMPLE_SIZE] and not body.startswith((b"\xff\xfe", b"\xfe\xff"))


def decode_body(content_type: str, body: bytes, *, html: bool) -> str:
    """Decode by byte order mark, header, XML declaration or meta tag, in this order; else as UTF-8, and if that fails
    as Latin."""
    mark = next((charset for start, charset in _BYTE_ORDER_MARKS if body.startswith(start)), None)
    charset = mark or _supported_charset(_named_charset(content_type, body[:SAMPLE_SIZE], html=html))
    if charset is not None:
        return body.decode(charset, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        cut_short = error.start >= len(body) - 3 and error.reason == "unexpected end of data"
        return body.decode("utf-8" if cut_short else "cp1252", "replace")


def _named_charset(content_type: str, sample: bytes, *, html: bool) -> str:
    if parameter := _PARAMETER.search(content_type):
        return parameter[1]
    declared = _XML.match(sample) or (_META.search(sample) if html else None)
    name = declared[1].decode("ascii") if declared else ""
    return "utf-8" if name.lower().startswith("utf-16") else name  # what could be read as ASCII is not in UTF-16


def _supported_charset(name: str) -> str | None:
    name = name.lower()
    if not _CHARSETS.fullmatch(name):
        return None
    name = _CHARSET_SUPERSETS.get(name, name)
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    return name
