"""Sanitize text from other authors for the model: nothing in it is invisible or can pass for the runtime's own words.

Text can contain characters that people do not see but models read: tag characters that spell an instruction, bidi
controls that show code in another order than it runs in, escape sequences. They are written as escapes. Characters that
scripts and emoji need are kept: joiners between joining letters, selectors after emoji and ideographs, and the
zero-width space of languages that use no other.

JSON gets JSON's own escapes, so that its value is unchanged and a model that quotes it quotes the true text. Plain text
gets `\\u{202e}`. Both are pure functions of the text, so a view loaded from disk has the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from typing import Any, cast

from agent_common.protocol import NOTES_TAG, is_object

MAX_ESCAPED_RUN = 32
"""Invisible characters in a row that are escaped; the number of further ones is given instead."""

MAX_ATTRIBUTE_CHARACTERS = 300
"""Maximum characters of an attribute."""

_ASCII = r"\x00-\x08\x0b-\x1f\x7f"
_UNSEEN = (
    r"\x80-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control characters, and those that Unicode calls default-ignorable, which have no glyph of their own."""
_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    r"\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING = (
    r"\u0600-\u061b\u061d-\u0dff\u0e80-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\ufb50-\ufdff\ufe70-\ufefc"
    r"\U00010d00-\U00011fff"
)
"""Arabic and related scripts, the scripts of India and South-East Asia, and Mongolian."""
_RIGHT_TO_LEFT = r"\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_BETWEEN = rf"[^\w{_ASCII}{_UNSEEN}]"
"""A visible character that is no letter, between a letter and a direction mark."""
_NO_SPACES = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1950-\u19df\u1a20-\u1aaf"
"""Thai, Lao, Burmese, Khmer and Tai, in which a zero-width space ends a word."""
_IDEOGRAPHS = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("beng", "bsct", "bwls"))

_NEEDED = "|".join(
    (
        rf"(?<=[{_JOINING}][\u200c\u200d])",
        rf"(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))(?=[{_EMOJI}])",
        rf"(?<=[{_EMOJI}][\ufe0e\ufe0f])",
        r"(?<=[0-9#*]\ufe0f)(?=\u20e3)",
        rf"(?<=\U0001f3f4\U000e0067)(?:{_FLAGS})\U000e007f",
        rf"(?<=[{_IDEOGRAPHS}][\ufe00-\ufe02\U000e0100-\U000e01ef])",
        rf"(?<=[{_NO_SPACES}]\u200b)(?=[{_NO_SPACES}])",
        *(rf"(?<=[{_RIGHT_TO_LEFT}]{between}[\u200e\u200f\u061c])" for between in ("", _BETWEEN, _BETWEEN * 2)),
        rf"(?<=[\u200e\u200f\u061c])(?={_BETWEEN}{{0,2}}[{_RIGHT_TO_LEFT}])",
        r"(?<=[\u1820-\u18aa][\u180b-\u180f])",
        r"(?<=[\u1100-\u115e]\u1160)|(?<=\u115f)(?=[\u1161-\u11a7])",
        r"(?<=\r)(?=\n)",
    )
)
"""Positions after an invisible character at which the character is needed."""
_SUSPECT = re.compile(f"[{_ASCII}{_UNSEEN}]")


@cache
def _invisible_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_ASCII}{_UNSEEN}](?P<needed>{_NEEDED})?")


_MANY = re.compile(f"([{_ASCII}{_UNSEEN}]{{{MAX_ESCAPED_RUN}}})([{_ASCII}{_UNSEEN}]+)")
_TAG = re.compile(rf"<(?=(?:[\s/]|\\[nrtfb])*{NOTES_TAG})", re.IGNORECASE)
_OWN_TAGS = re.compile(
    rf"<(?=[\s/]*(?:{NOTES_TAG}|agent|data|environment|file|instructions|learnings|skills|summary)\b)", re.IGNORECASE
)
"""The tags that separate data from the runtime's own text in the prompt and the notes."""
_SPELLED = re.compile(
    r"\\u(?:\{([0-9a-fA-F]{1,6})\}|([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|([0-9a-fA-F]{4}))"
)
"""An escaped character, in plain text or in JSON."""
_CONTROLS = bytes((*range(9), *range(11, 32), 127))


def escape_invisible(text: str) -> str:
    """Return plain text with invisible characters written as `\\u{...}`."""
    return _invisible_pattern().sub(_plain_escape, _shortened(text)) if _is_suspect(text) else text


def escape_text(text: str) -> str:
    """Return a text of another author with invisible characters and the runtime's tag escaped."""
    text = escape_invisible(text)
    return _TAG.sub("&lt;", text) if "<" in text else text


def escape_json_texts(value: Any) -> Any:
    """Apply `escape_text` to every text in a JSON value."""
    if isinstance(value, str):
        return escape_text(value)
    if is_object(value):
        return {escape_text(name): escape_json_texts(member) for name, member in value.items()}
    return (
        [escape_json_texts(member) for member in cast(list[Any], value)] if isinstance(value, list | tuple) else value
    )


def escape_result_json(text: str) -> str:
    """Return a tool's result, as JSON, with invisible characters and the runtime's tag escaped and its value
    unchanged."""
    if _is_suspect(text):
        text = _invisible_pattern().sub(_json_escape, _shortened(text))
    return _TAG.sub(r"\\u003c", text) if "<" in text else text


def unescape(text: str, only: str | None = None) -> str:
    """Undo the escapes in a text that a model has copied. `only` lists the characters to restore; None: all that are
    ever escaped."""

    def character(found: re.Match[str]) -> str:
        braces, pair, four = found.groups()
        code = int(braces or four, 16) if pair is None else ord(json.loads(f'"\\u{pair}"'))  # noqa: TID251  one character
        one = chr(code) if code <= sys.maxunicode else ""
        known = one in only if only is not None else one == "<" or _SUSPECT.fullmatch(one) is not None
        return one if one and known else found[0]

    return _SPELLED.sub(character, text) if "\\u" in text else text


def wrap_data(tag: str, text: str, **about: str) -> str:
    """Wrap a text as data in tags that name its source and that it cannot close."""
    return wrap_escaped(tag, escape_data(text), **about)


def wrap_escaped(tag: str, escaped: str, **about: str) -> str:
    """Wrap a text that `escape_data` has made safe."""
    attributes = "".join(f' {name}="{_attribute(value)}"' for name, value in about.items())
    return f"<{tag}{attributes}>\n{escaped}\n</{tag}>"


def escape_data(text: str) -> str:
    """Escape a text so that it cannot close its wrapper or look like one."""
    text = escape_invisible(text)
    return _OWN_TAGS.sub("&lt;", text) if "<" in text else text


def _attribute(value: str) -> str:
    """Return an attribute's value: on one line, shortened and escaped."""
    flat = escape_invisible(" ".join(value[:MAX_ATTRIBUTE_CHARACTERS].split()))
    return flat.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _is_suspect(text: str) -> bool:
    """Return quickly whether a text needs escaping: most do not. ASCII takes a microsecond per thousand characters."""
    if text.isascii():
        return len(text.encode().translate(None, _CONTROLS)) < len(text)
    return _SUSPECT.search(text) is not None


def _plain_escape(found: re.Match[str]) -> str:
    return found[0] if found["needed"] is not None else f"\\u{{{ord(found[0]):x}}}"


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found["needed"] is not None else json.dumps(found[0])[1:-1]


def _shortened(text: str) -> str:
    return _MANY.sub(lambda run: f"{run[1]}[and {len(run[2])} more characters that cannot be seen]", text)
