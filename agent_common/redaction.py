"""Takes secrets out of texts: those that are known, and for notes also what looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import unquote

REDACTED = "[redacted]"
NOTE_MARK = "[secret]"
"""Replaces secrets in notes, memory and the daily log: their files keep this mark."""
MIN_SECRET_CHARACTERS = 4
"""Characters of a known secret; a shorter one would take ordinary words out of every text."""
MIN_NOTED_SECRET_CHARACTERS = 8
"""The same for notes, in which an ordinary word that is lost cannot be had back."""
_WORDS = "api[_-]?key|access[_-]?key|token|secret|password|passwd|passphrase|credential|authorization"
_NAME = rf"[\w-]{{0,40}}(?:{_WORDS})[\w-]{{0,40}}"
_RULES = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END |$)", re.DOTALL), NOTE_MARK),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {NOTE_MARK}"),
    (re.compile(r"://[^\s/@:]{0,200}:[^\s/@]{1,200}@"), f"://{NOTE_MARK}@"),
    (re.compile(r"\b(?:sk|pk|rk|gh[opsur]|github_pat|glpat|xox[abeoprs]|npm|hf|pypi|AIza)[-_]?[\w-]{16,}"), NOTE_MARK),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), NOTE_MARK),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}(?:\.[\w-]*)?"), NOTE_MARK),
    (re.compile(r"\b[0-9a-fA-F]{32,}\b"), NOTE_MARK),
)
_NAMED = re.compile(_WORDS, re.IGNORECASE)
"""Few texts have such a word, and the search for values after one takes longer than all other rules."""
_NAMED_RULES = (
    # NAME=value, and "name": "value" as JSON writes it
    (re.compile(rf"(?<![\w-])({_NAME} ?= ?)(?:\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)", re.IGNORECASE), rf"\1{NOTE_MARK}"),
    (re.compile(rf"([\"']{_NAME}[\"'] ?: ?)(?:\"[^\"]*\"|'[^']*')", re.IGNORECASE), rf"\1{NOTE_MARK}"),
    # name: value, where the value is not a word
    (re.compile(rf"(?<![\w-])({_NAME} ?: ?)(?=\S{{0,200}}\d)[^\s\"',;]{{8,}}", re.IGNORECASE), rf"\1{NOTE_MARK}"),
)
_MARKS = (
    *("key", "token", "secret", "passw", "passphrase", "credential", "authorization"),
    *("-----begin ", "bearer", "basic", "://", "eyj"),
    *("\N{LATIN SMALL LETTER DOTLESS I}", "i\N{COMBINING DOT ABOVE}", "\N{LATIN SMALL LETTER LONG S}"),
)
"""Every text that a rule matches has one of these in it, in small letters, or a run of MIN_RUN_CHARACTERS that
words and paths are made of. Patterns that ignore case take the last three for other letters."""
MIN_RUN_CHARACTERS = 18
_JOINED = bytes(at if (chr(at).isalnum() and at < 128) or at in b"_+/-?" else 32 for at in range(256))
"""Puts a blank for each character that ends a run. A question mark stands for a letter beyond ASCII."""
_LONG = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")


class Redactor:
    """Takes these secrets out of texts. In notes it also takes out what looks like a secret: it finds the usual forms,
    but not a password that is a plain word."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS]
        self._forms = _all_forms(self._secrets)
        self._noted_forms = _all_forms(one for one in self._secrets if len(one) >= MIN_NOTED_SECRET_CHARACTERS)

    def redact(self, text: str) -> str:
        """Return the text without the secrets: as they are, in JSON, and in JSON inside JSON."""
        return _replace(text, self._forms, REDACTED)

    def redact_note(self, text: str) -> str:
        """Return the text without the secrets, and without what looks like one."""
        text = _replace(text, self._noted_forms, NOTE_MARK)
        if _is_plain(text):
            return text
        for pattern, replacement in (*(_NAMED_RULES if _NAMED.search(text) else ()), *_RULES):
            text = pattern.sub(replacement, text)
        return _LONG.sub(lambda found: NOTE_MARK if _looks_random(found[0]) else found[0], text)

    def split_releasable(self, text: str) -> tuple[str, str]:
        """Split a text that comes in pieces: what may go out, and an end that must wait for the next piece because it
        may be the beginning of a secret."""
        held = max((_overlap(text, secret) for secret in self._secrets), default=0)
        return text[: len(text) - held], text[len(text) - held :]


def redacted_url(url: str) -> str:
    """Return the URL without user, password, query and fragment, which may be secrets, for errors and logs."""
    scheme, separator, rest = re.split("[?#]", url, maxsplit=1)[0].partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"


def url_secrets(url: str) -> list[str]:
    """Return the password of a URL, or the user where there is none (a token stands there), as written and as meant."""
    authority = re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0]
    user, _, password = authority.rpartition("@")[0].partition(":")
    secret = password or user
    return sorted({secret, unquote(secret)}) if secret else []


def _all_forms(secrets: Iterable[str]) -> list[str]:
    """Return the secrets as they may stand in a text, the longest first, so that none is replaced in parts."""
    return sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)


def _forms(secret: str) -> set[str]:
    """A quote or a backslash in the secret is escaped once more at each level of JSON."""
    forms = {secret}
    newest = {secret}
    for _ in range(2):
        newest = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in newest for ascii_only in (True, False)}
        forms |= newest
    return forms


def _replace(text: str, forms: list[str], mark: str) -> str:
    for form in forms:
        text = text.replace(form, mark)
    return text


def _overlap(text: str, secret: str) -> int:
    """Return how many characters at the end of the text begin the secret, without all of it being there."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0


def _is_plain(text: str) -> bool:
    """Whether no rule can match. This takes a fraction of the rules' time, and most texts of people are plain."""
    lower = text.lower()
    if any(map(lower.__contains__, _MARKS)):
        return False
    words = text.encode("ascii", "replace").translate(_JOINED).split()
    return max(map(len, words), default=0) < MIN_RUN_CHARACTERS


def _looks_random(word: str) -> bool:
    """Whether a piece of the word has digits, small and capital letters; pieces of paths and names are mere words."""
    return any(
        len(piece) >= 20 and re.search("[0-9]", piece) and re.search("[a-z]", piece) and re.search("[A-Z]", piece)
        for piece in re.split("[/_-]", word)
    )
