"""The seed of a storm: another one in each run."""

from __future__ import annotations

import os
import random


def storm_seed() -> int:
    """Draw the seed of all that a storm leaves to chance but the timing of the machine, and print it with the test's
    output: `STORM_SEED=7 pytest ...` takes that one. So does the same `--randomly-seed` for the same test."""
    seed = int(os.environ.get("STORM_SEED") or random.randrange(1_000_000))
    print(f"STORM_SEED={seed}")
    return seed
