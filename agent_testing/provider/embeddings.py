"""Deterministic embeddings: the vectors of texts that share words are similar."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from typing import Any

DIMENSIONS = 64


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a unit vector: each word adds one to a dimension chosen by its checksum. Empty text counts as one word."""
    counts = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        counts[zlib.crc32(word.encode()) % dimensions] += 1.0
    length = math.sqrt(sum(count * count for count in counts))
    return [count / length for count in counts]


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a `/v1/embeddings` body, with floats, or base64 of float32 if the body asks for it."""
    given = body.get("input", "")
    texts: list[str] = [given] if isinstance(given, str) else [str(text) for text in given]
    vectors = [vector(text, int(body.get("dimensions") or DIMENSIONS)) for text in texts]
    encode = _base64 if body.get("encoding_format") == "base64" else list[float]
    tokens = sum(-(-len(text.encode()) // 4) for text in texts)
    return {
        "object": "list",
        "model": body.get("model", "default"),
        "data": [{"object": "embedding", "index": at, "embedding": encode(one)} for at, one in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _base64(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
