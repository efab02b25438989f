"""Addresses in texts: which of them become links, and when a link has to show where it leads."""

from __future__ import annotations

import re
from collections.abc import Iterator

_URL_IN_TEXT = re.compile(r"(?<![A-Za-z0-9])https?://[A-Za-z0-9][^\s<>\"`|\\^{}\[\]]*", re.IGNORECASE)
_TRAILING = ".,:;!?'*_~"
_WEB = re.compile(
    r"https?://(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}(?:[a-z]{2,24}|xn--[a-z0-9-]{2,50}))(?::\d{1,5})?"
    r"(?:[/?#][^\s<>\"`|\\^{}]*)?",
    re.IGNORECASE,
)
_MAIL = re.compile(r"mailto:[a-z0-9.+_-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}", re.IGNORECASE)
_LOOKS_LIKE_ADDRESS = re.compile(r"://|\w[.\u2024\u3002\uff0e\uff61]\w")
_OPENS_IN_TELEGRAM = ("t.me", "telegram.me", "telegram.dog")


def addresses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, and whether the part is an address of the web."""
    end = 0
    for match in _URL_IN_TEXT.finditer(text):
        address = _without_trailing_signs(match[0])
        if address.endswith("/") and address.count("/") == 2:
            continue
        if match.start() > end:
            yield text[end : match.start()], False
        yield address, True
        end = match.start() + len(address)
    if end < len(text):
        yield text[end:], False


def is_web(address: str) -> bool:
    """Tell whether a browser opens the address as it is written."""
    match = _URL_IN_TEXT.match(address)
    return match is not None and match.end() == len(address)


def is_linkable(address: str) -> bool:
    """Tell whether it leads to a public host, which is named plainly, or to a mailbox."""
    return bool(_WEB.fullmatch(address) or _MAIL.fullmatch(address))


def is_honest(label: str, address: str) -> bool:
    """Tell whether a link with this label may hide its address. It may not if the label looks like an address of its
    own, or if Telegram would open it without asking."""
    if _shortened(label) == _shortened(address):
        return True
    match = _WEB.fullmatch(address)
    host = match["host"].lower() if match else ""
    inside = any(host == one or host.endswith(f".{one}") for one in _OPENS_IN_TELEGRAM)
    return not inside and not _LOOKS_LIKE_ADDRESS.search(label)


def _shortened(address: str) -> str:
    return re.sub(r"^(https?://|mailto:)", "", address.strip(), flags=re.IGNORECASE).rstrip("/")


def _without_trailing_signs(address: str) -> str:
    unmatched = address.count(")") - address.count("(")
    end = len(address)
    while end and (address[end - 1] in _TRAILING or (address[end - 1] == ")" and unmatched > 0)):
        unmatched -= address[end - 1] == ")"
        end -= 1
    return address[:end]
