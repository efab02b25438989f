from __future__ import annotations

import errno
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sandbox import SPILL_LIMIT
from agent_runtime.sandbox.run.capture import Capture, OpenSpill

LIMIT = 64
chunks = st.lists(st.tuples(st.booleans(), st.binary(max_size=50)), max_size=30)


def fed(pieces: list[tuple[bool, bytes]], limit: int = LIMIT) -> Capture:
    capture = Capture(limit)
    for to_stderr, piece in pieces:
        capture.feed(capture.stderr if to_stderr else capture.stdout, piece)
    return capture


@given(chunks)
def test_short_output_comes_whole_and_long_output_from_both_ends(pieces: list[tuple[bool, bytes]]) -> None:
    capture = fed(pieces)
    whole = [b"".join(piece for to_stderr, piece in pieces if to_stderr is which) for which in (False, True)]
    assert capture.truncated == (sum(map(len, whole)) > LIMIT)
    for text, said in zip(capture.texts(), whole, strict=True):
        if not capture.truncated:
            assert text == said.decode(errors="replace")
        elif " bytes left out ...]\n" not in text:
            assert text == said.decode(errors="replace"), "one that is short is not cut because the other one is long"
        else:
            head, _, rest = text.partition("\n[... ")
            count, _, tail = rest.partition(" bytes left out ...]\n")
            assert int(count) > 0
            assert said.decode(errors="ignore").startswith(head) or "\ufffd" in said.decode(errors="replace")
            assert said.decode(errors="ignore").endswith(tail) or "\ufffd" in said.decode(errors="replace")


@given(chunks)
def test_both_streams_together_stay_within_the_limit(pieces: list[tuple[bool, bytes]]) -> None:
    capture = fed([(to_stderr, piece.hex().encode()) for to_stderr, piece in pieces])
    kept = sum(len(text.replace("\n[... ", "\0").split("\0")[0]) for text in capture.texts())
    assert kept <= LIMIT
    assert len(capture.stdout.tail) <= 2 * LIMIT + 100


def test_the_boundary_is_exact() -> None:
    assert fed([(False, b"a" * 60), (True, b"b" * 4)]).texts() == ("a" * 60, "b" * 4)
    stdout, stderr = fed([(False, b"a" * 60), (True, b"b" * 5)]).texts()
    assert stderr == "b" * 5
    assert stdout == "a" * 29 + "\n[... 1 bytes left out ...]\n" + "a" * 30
    stdout, stderr = fed([(False, b"a" * 5), (True, b"b" * 60)]).texts()
    assert (stdout, stderr.count("b")) == ("a" * 5, 59 + 1)  # "bytes" has one too
    stdout, stderr = fed([(False, b"x" * 100), (True, b"z" * 100)]).texts()
    assert (stdout.count("x"), stderr.count("z")) == (32, 32)


def test_memory_stays_flat_whatever_is_printed() -> None:
    capture = Capture(LIMIT)
    for _ in range(1000):
        capture.feed(capture.stdout, b"x" * 1000)
    assert len(capture.stdout.head) == LIMIT
    assert len(capture.stdout.tail) <= 2 * LIMIT + 1000
    assert capture.total == 1_000_000


def test_the_whole_goes_to_a_file_in_the_order_in_which_it_came(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    capture = Capture(LIMIT, lambda: path.open("wb"))
    capture.feed(capture.stdout, b"a" * 30)
    capture.feed(capture.stderr, b"b" * 30)
    assert not path.exists(), "short output needs no file"
    capture.feed(capture.stdout, b"c" * 30)
    capture.feed(capture.stderr, b"d" * 30)
    capture.close()
    assert path.read_bytes() == b"a" * 30 + b"b" * 30 + b"c" * 30 + b"d" * 30
    assert capture.output_path == str(path)


def refuse() -> BinaryIO:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("spill", [refuse, lambda: open("/dev/full", "wb")])  # noqa: SIM115  the capture closes it
def test_a_disk_that_cannot_be_written_costs_the_file_alone(spill: OpenSpill) -> None:
    capture = Capture(LIMIT, spill)
    for _ in range(3):
        capture.feed(capture.stdout, b"x" * 2**20)
    capture.close()
    assert capture.texts()[0].startswith("x" * 32 + "\n[... ")
    assert capture.output_path is None
    assert (capture.fault or "").startswith("the whole output could not be kept in a file: ")


def test_the_file_has_a_cap(tmp_path: Path) -> None:
    path = tmp_path / "spill"
    capture = Capture(LIMIT, lambda: path.open("wb"))
    for _ in range(12):
        capture.feed(capture.stdout, b"x" * 2**20)
    capture.close()
    assert capture.full
    assert path.stat().st_size == SPILL_LIMIT
