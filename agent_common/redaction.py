"""Takes out of a text what looks like a secret. It finds the usual forms; a password in plain words it cannot know."""

from __future__ import annotations

import re
from collections.abc import Sequence

REDACTED = "[secret]"
MIN_SECRET_CHARACTERS = 8
"""Characters of a known secret; a shorter one would be found in half of all words."""
_WORDS = "api[_-]?key|access[_-]?key|token|secret|password|passwd|passphrase|credential|authorization"
_NAME = rf"[\w-]{{0,40}}(?:{_WORDS})[\w-]{{0,40}}"
_RULES = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END |$)", re.DOTALL), REDACTED),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"://[^\s/@:]{0,200}:[^\s/@]{1,200}@"), f"://{REDACTED}@"),
    (re.compile(r"\b(?:sk|pk|rk|gh[opsur]|github_pat|glpat|xox[abeoprs]|npm|hf|pypi|AIza)[-_]?[\w-]{16,}"), REDACTED),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), REDACTED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), REDACTED),
    (re.compile(r"\b[0-9a-fA-F]{32,}\b"), REDACTED),
)
_NAMED = re.compile(_WORDS, re.IGNORECASE)
"""Few texts have such a word, and to look for values behind one takes longer than all the rest."""
_NAMED_RULES = (
    # NAME=value, and "name": "value" as JSON writes it
    (re.compile(rf"(?<![\w-])({_NAME} ?= ?)(?:\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(rf"([\"']{_NAME}[\"'] ?: ?)(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE), rf"\1{REDACTED}"),
    # name: value, where the value is not a word
    (re.compile(rf"(?<![\w-])({_NAME} ?: ?)(?=\S{{0,200}}\d)[^\s\"',;]{{8,}}", re.IGNORECASE), rf"\1{REDACTED}"),
)
_SIGNS = (
    *("key", "token", "secret", "passw", "passphrase", "credential", "authorization"),
    *("-----begin ", "bearer", "basic", "://", "eyj"),
    *("\N{LATIN SMALL LETTER DOTLESS I}", "i\N{COMBINING DOT ABOVE}", "\N{LATIN SMALL LETTER LONG S}"),
)
"""In small letters: every text that a rule fits has one of them, or a run of so many signs as words and paths are made
of. The last ones stand for other letters in patterns that ignore case."""
MIN_RUN_CHARACTERS = 18
_JOINED = bytes(at if (chr(at).isalnum() and at < 128) or at in b"_+/-?" else 32 for at in range(256))
"""Blanks in the place of all that ends a run; a question mark stands for a letter beyond ASCII."""
_LONG = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The text without the secrets that are known, and without what looks like one."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET_CHARACTERS:
            text = text.replace(secret, REDACTED)
    if _is_plain(text):
        return text
    for pattern, replacement in (*(_NAMED_RULES if _NAMED.search(text) else ()), *_RULES):
        text = pattern.sub(replacement, text)
    return _LONG.sub(lambda found: REDACTED if _looks_random(found[0]) else found[0], text)


def _is_plain(text: str) -> bool:
    """Whether no rule can find anything, told in a fraction of their time. Most texts of people are so."""
    lower = text.lower()
    if any(sign in lower for sign in _SIGNS):
        return False
    words = text.encode("ascii", "replace").translate(_JOINED).split()
    return max(map(len, words), default=0) < MIN_RUN_CHARACTERS


def _looks_random(word: str) -> bool:
    """Whether it looks drawn by lot: all kinds of characters within one piece, where a path or a name has words."""
    return any(
        len(piece) >= 20 and re.search("[0-9]", piece) and re.search("[a-z]", piece) and re.search("[A-Z]", piece)
        for piece in re.split("[/_-]", word)
    )
