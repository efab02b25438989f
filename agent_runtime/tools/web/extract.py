"""The program behind web_fetch: a page on stdin, what it says as Markdown on stdout.

It runs as a confined process of its own: pages are written by strangers, and one that makes the parser run for ever or
break then costs one process its deadline.
"""

from __future__ import annotations

import json
import sys

MAX_CHARACTERS = 8 * 1024 * 1024
"""Characters of text."""
LARGE_PAGE = 1_000_000
"""Characters of a page above which its main part is not looked for: that takes time in proportion to their square."""
SHORT_TEXT = 250
"""Characters below which the main part may have been missed."""


def extract_text(page: str, url: str) -> str:
    """The main part of a page, or all of its text where none stands out."""
    import trafilatura

    if len(page) > LARGE_PAGE:
        return trafilatura.html2txt(page) or ""
    main = trafilatura.extract(
        page,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_formatting=True,
        include_comments=False,
        deduplicate=False,
        favor_recall=True,
    )
    main = main or ""
    if len(main) >= SHORT_TEXT:
        return main
    whole = trafilatura.html2txt(page) or ""
    return whole if len(whole) > 2 * len(main) else main


if __name__ == "__main__":
    request = json.loads(sys.stdin.buffer.readline())
    text = extract_text(sys.stdin.buffer.read().decode("utf-8", "replace"), request["url"])
    sys.stdout.buffer.write(text[:MAX_CHARACTERS].encode("utf-8", "replace"))
