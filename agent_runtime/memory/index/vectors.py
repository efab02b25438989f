"""Vectors of facts and passages, by which a search finds texts of similar meaning if there is an embedding model.

A vector is stored twice: a bit for the sign of each number, to scan many, and a byte for each number, to compare the
best of them. With `sqlite-vec`, if this Python's SQLite can load it, a search scans all vectors of a scope; without it,
vectors only rank the entries that the index has found by words.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

from .schema import Scope

MAX_DIMENSIONS = 8192
MAX_COARSE = 100
"""Vectors with the most equal sign bits that are then compared by their numbers."""
MAX_SCANNED = 100_000
"""Vectors of a scope that a search scans, the latest ones."""
MIN_SIMILARITY = 0.5
"""Share of the best similarity that an entry must reach to be found."""
_VEC_VERSION = "SELECT vec_version()"


@dataclass(frozen=True, slots=True)
class Vector:
    """The direction of an embedding, quantized."""

    bits: bytes
    numbers: bytes
    """One signed byte for each dimension, from -127 to 127."""

    @classmethod
    def from_values(cls, values: Sequence[float]) -> Vector:
        """Quantize an embedding. Raises ValueError if it has no direction, or more than MAX_DIMENSIONS numbers."""
        length = math.sqrt(math.fsum(value * value for value in values))
        if not 0 < length < math.inf or len(values) > MAX_DIMENSIONS:
            raise ValueError(f"{len(values)} numbers of length {length}")
        numbers = array("b", (round(value / length * 127) for value in values))
        bits = "".join("1" if number > 0 else "0" for number in numbers)
        bits += "0" * (-len(bits) % 8)
        return cls(int(bits, 2).to_bytes(len(bits) // 8), numbers.tobytes())

    def similarity(self, numbers: bytes) -> float:
        """Return the cosine, from -1 to 1; 0 for a vector of other dimensions, which is another model's."""
        if len(numbers) != len(self.numbers):
            return 0.0
        mine = array("b", self.numbers)
        theirs = array("b", numbers)
        norm = math.sqrt(sum(map(mul, mine, mine)) * sum(map(mul, theirs, theirs)))
        return sum(map(mul, mine, theirs)) / norm if norm else 0.0


def nearest(
    connection: sqlite3.Connection, scopes: Sequence[Scope], vector: Vector, found: Iterable[int], limit: int
) -> list[int]:
    """Return the entries closest in meaning, best first: of these scopes, or without `sqlite-vec` of those `found`."""
    near = _coarse_matches(connection, scopes, vector) if _has_vec_extension(connection) else list(found)
    rows = connection.execute(_NUMBERS, (json.dumps(near),))
    likeness = {row["entry"]: vector.similarity(row["numbers"]) for row in rows}
    least = MIN_SIMILARITY * max(likeness.values(), default=0.0)
    alike = [entry for entry, like in likeness.items() if like > 0 and like >= least]
    return sorted(alike, key=lambda entry: -likeness[entry])[:limit]


def store_vector(connection: sqlite3.Connection, entry: int, scope: int, vector: Vector) -> None:
    """Store the vector of an entry, unless the entry was deleted meanwhile."""
    if connection.execute("SELECT 1 FROM memory_entries WHERE id = ?", (entry,)).fetchone() is not None:
        connection.execute("INSERT OR REPLACE INTO memory_signs VALUES (?, ?, ?)", (scope, entry, vector.bits))
        connection.execute("INSERT OR REPLACE INTO memory_vectors VALUES (?, ?)", (entry, vector.numbers))


def delete_vector(connection: sqlite3.Connection, scope: int, entry: int) -> None:
    """Delete the vector of an entry, if it has one."""
    connection.execute("DELETE FROM memory_signs WHERE scope = ? AND entry = ?", (scope, entry))
    connection.execute("DELETE FROM memory_vectors WHERE entry = ?", (entry,))


def delete_vectors(connection: sqlite3.Connection, limit: int) -> int:
    """Delete at most `limit` vectors. Return how many were deleted."""
    some = connection.execute("SELECT scope, entry FROM memory_signs LIMIT ?", (limit,)).fetchall()
    for row in some:
        delete_vector(connection, row["scope"], row["entry"])
    return len(some)


def _coarse_matches(connection: sqlite3.Connection, scopes: Sequence[Scope], vector: Vector) -> list[int]:
    size = len(vector.bits)
    found: list[tuple[int, int]] = []
    for scope in scopes:
        rows = connection.execute(_COARSE, (vector.bits, scope.id, MAX_SCANNED, size, MAX_COARSE))
        found += ((row["distance"], -row["entry"]) for row in rows)
    return [-entry for _, entry in sorted(found)[:MAX_COARSE]]


def _has_vec_extension(connection: sqlite3.Connection) -> bool:
    """Return whether the connection has sqlite-vec, which is loaded if possible."""
    try:
        connection.execute(_VEC_VERSION)
    except sqlite3.OperationalError:
        return _load_vec_extension(connection)
    return True


def _load_vec_extension(connection: sqlite3.Connection) -> bool:
    try:
        import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]

        connection.enable_load_extension(True)
        try:
            sqlite_vec.load(connection)
        finally:
            connection.enable_load_extension(False)
    except (AttributeError, ImportError, sqlite3.Error):  # AttributeError: a Python that was built without extensions
        return False
    return True


_NUMBERS = (
    "SELECT entry, numbers FROM json_each(?) AS near JOIN memory_vectors v ON v.entry = near.value ORDER BY near.rowid"
)
_COARSE = """
SELECT entry, vec_distance_hamming(vec_bit(bits), vec_bit(?)) AS distance
FROM (SELECT entry, bits FROM memory_signs WHERE scope = ? ORDER BY entry DESC LIMIT ?) WHERE length(bits) = ?
ORDER BY distance, entry DESC LIMIT ?
"""
