"""The program that web_fetch runs: reads a page from stdin and writes its text as Markdown to stdout.

It is a confined process of its own, because pages come from strangers: one that makes the parser hang or crash costs
only that process.
"""

from __future__ import annotations

import json
import sys

MAX_CHARACTERS = 8 * 1024 * 1024
"""Maximum characters of text."""
LARGE_PAGE = 1_000_000
"""Characters above which a page's main part is not searched, because that takes quadratic time."""
SHORT_TEXT = 250
"""Characters below which the main part may have been missed."""


def extract_text(page: str, url: str) -> str:
    """Return the main part of a page, or all of its text if none stands out."""
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
    request = json.loads(sys.stdin.buffer.readline())  # noqa: TID251  of our own server
    text = extract_text(sys.stdin.buffer.read().decode("utf-8", "replace"), request["url"])
    sys.stdout.buffer.write(text[:MAX_CHARACTERS].encode("utf-8", "replace"))
