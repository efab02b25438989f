"""Tell which encoding a model uses. The table is a copy of tiktoken's, which a test compares: importing it is slow."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

EncodingName = Literal["o200k_base", "cl100k_base"]

# The first prefix that matches counts, so that `ft:gpt-4o` is not taken for a `gpt-4`.
_EXACT: dict[str, EncodingName] = {
    **dict.fromkeys(("o1", "o3", "o4-mini", "gpt-5", "gpt-4.1", "gpt-4o"), "o200k_base"),
    **dict.fromkeys(("gpt-4", "gpt-3.5-turbo", "gpt-3.5", "gpt-35-turbo", "davinci-002", "babbage-002"), "cl100k_base"),
    **dict.fromkeys(("text-embedding-ada-002", "text-embedding-3-small", "text-embedding-3-large"), "cl100k_base"),
}
_PREFIXES: tuple[tuple[str, EncodingName], ...] = (
    *((name, "o200k_base") for name in ("o1-", "o3-", "o4-mini-", "gpt-5", "gpt-4.5-", "gpt-4.1-")),
    *((name, "o200k_base") for name in ("chatgpt-4o-", "gpt-4o-", "gpt-oss-", "ft:gpt-4o")),
    *((name, "cl100k_base") for name in ("gpt-4-", "gpt-3.5-turbo-", "gpt-35-turbo-", "ft:gpt-4", "ft:gpt-3.5-turbo")),
    *((name, "cl100k_base") for name in ("ft:davinci-002", "ft:babbage-002")),
)


@lru_cache(maxsize=256)
def encoding_of(model: str) -> EncodingName | None:
    """Return the encoding of a model; None if unknown. The name may have a provider before it (`openai/gpt-4o`) and a
    variant after it (`gpt-4o:free`). For ordinary text the encoding of `gpt-oss` equals `o200k_base`."""
    name = model.strip().lower().rpartition("/")[2]
    if not name.startswith("ft:"):
        name = name.partition(":")[0]
    return _EXACT.get(name) or next((encoding for prefix, encoding in _PREFIXES if name.startswith(prefix)), None)
