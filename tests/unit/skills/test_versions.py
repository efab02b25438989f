from __future__ import annotations

import difflib
import random
import time

import pytest

from agent_runtime.skills.sources.versions import MAX_LINES, diff_files


@pytest.mark.parametrize("seed", range(30))
def test_a_difference_is_that_of_the_whole_files(seed: int) -> None:
    """Only what has changed is compared, and nobody sees that."""
    random.seed(seed)
    old = [f"line {number}" for number in range(random.choice([0, 1, 5, 300]))]
    new = list(old)
    for _ in range(random.randrange(1, 5)):
        at = random.randrange(len(new) + 1)
        new[at : at + random.randrange(3)] = [f"new {random.random()}"] * random.randrange(3)
    if new in (old, []):
        new = [*old, "one"]
    whole = difflib.unified_diff(old, new, "a.py" if old else "/dev/null", "a.py", lineterm="")
    texts = ["".join(f"{line}\n" for line in lines).encode() for lines in (old, new)]
    assert diff_files({"a.py": texts[0]}, {"a.py": texts[1]}) == "".join(f"{line}\n" for line in whole)


def test_versions_that_are_made_to_be_hard_to_compare_are_not() -> None:
    old, new = ("".join(f"#{number * by % 101}\n" for number in range(20_000)).encode() for by in (1, 7))
    began = time.process_time()
    assert diff_files({"a.py": old}, {"a.py": new}) == f"a.py: {len(old)} bytes became {len(new)}\n"
    assert time.process_time() - began < 1, "it took half a minute and more"
    many = {f"{name}.py": b"x\n" * (MAX_LINES // 4) for name in range(8)}
    assert diff_files({}, many).count("bytes became") == 4
