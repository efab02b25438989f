"""Sends one notice by apprise: `{urls, title, body}` on stdin. Its exit code says whether all of them took it."""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> int:
    """Send what stdin says."""
    import apprise

    given = json.load(sys.stdin)  # noqa: TID251  of our own bots
    notices: Any = apprise.Apprise()  # its types are not complete
    known = [bool(notices.add(url)) for url in given["urls"]]
    sent = notices.notify(body=given["body"], title=given["title"], body_format="text")
    return 0 if all(known) and sent else 1


if __name__ == "__main__":
    sys.exit(main())
