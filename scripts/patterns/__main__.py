"""Hold the patterns of the product to the list of those that may grow."""

from __future__ import annotations

import sys

from .growth import grows
from .known import BOUNDED, MADE_WHILE_RUNNING
from .sources import all_patterns


def main() -> int:
    """Print each pattern that is not as the lists say."""
    faults: list[str] = []
    bounded = set(BOUNDED)
    unknown = set(MADE_WHILE_RUNNING)
    for one in all_patterns():
        if one.text is None:
            unknown.discard(one.place)
            if one.place not in MADE_WHILE_RUNNING:
                faults.append(f"{one.place}: its text is not known before the product runs")
        elif (text := grows(one.text, one.flags, one.how)) is not None:
            bounded.discard(one.place)
            if one.place not in BOUNDED:
                faults.append(f"{one.place}: its cost grows faster than the text, as with {text[:60]!r} ({one.how})")
    faults += [f"{place}: is listed in scripts/patterns/known.py without need" for place in sorted(bounded | unknown)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print(
            "Bound the length before the pattern and list it in scripts/patterns/known.py, or mend it.", file=sys.stderr
        )
    return 1 if faults else 0


sys.exit(main())
