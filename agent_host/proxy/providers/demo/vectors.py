"""Embeddings that depend on the words alone: texts that share words lie close together."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from typing import Any

from ....errors import ProviderFailed
from ...json_access import as_list

_DIMENSIONS = 256
_MOST_DIMENSIONS, _MOST_TEXTS = 4096, 2048


def embed(payload: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's embeddings answer: floats, or base64 of little-endian float32 when the request says so.

    Usage is counted as elsewhere in the demo: four bytes are a token.
    """
    inputs = as_list(payload["input"]) or [payload["input"]]
    size: Any = payload.get("dimensions")
    if len(inputs) > _MOST_TEXTS or (isinstance(size, int) and size > _MOST_DIMENSIONS):
        raise ProviderFailed(f"the demo model embeds at most {_MOST_TEXTS} texts in {_MOST_DIMENSIONS} dimensions")
    vectors = [_vector(str(text), size if isinstance(size, int) and size > 0 else _DIMENSIONS) for text in inputs]
    packed = payload.get("encoding_format") == "base64"
    tokens = sum(-(-len(str(text).encode("utf-8", "replace")) // 4) for text in inputs)
    return {
        "object": "list",
        "model": payload["model"],
        "data": [
            {"object": "embedding", "index": index, "embedding": _pack(vector) if packed else vector}
            for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _vector(text: str, dimensions: int) -> list[float]:
    """Each word votes for one place, by its checksum; the sum is brought to length 1."""
    places = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        places[zlib.crc32(word.encode("utf-8", "replace")) % dimensions] += 1.0
    length = math.sqrt(sum(place * place for place in places))
    return [place / length for place in places]


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
