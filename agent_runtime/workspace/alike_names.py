"""Names that read the same: other quotes, blanks and dashes, and signs composed or in parts, as macOS writes them.

A model reads such a name in a listing and writes it as people type it.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ALIKE_SIGNS = (
    "'\u00b4\u02bc\u2018\u2019\u201a\u201b\u2032",
    '"\u201c\u201d\u201e\u201f\u2033',
    " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
)
"""Groups of signs that read the same, each with the one that keyboards have in front."""
SIGN_FORMS = {ord(sign): group[0] for group in ALIKE_SIGNS for sign in group[1:]}
"""For `str.translate`: what keyboards have in the place of a sign."""
MAX_ENTRIES = 10_000
"""Entries of all folders on a path that are compared at most."""
MAX_COMPARED = 100_000
"""Characters of their names that are not ASCII and are compared at most: each takes some time."""
MAX_NAME = 255
"""Characters of a name; no file system has a longer one."""


def plain_name(name: str) -> str:
    """Return the form of a name that all names have that read the same."""
    return name if name.isascii() else unicodedata.normalize("NFC", name).translate(SIGN_FORMS)


def existing_alike(path: Path, root: Path) -> Path:
    """Return the path with the names below the root as the folders have them, where exactly one entry reads the same.
    What exists as it is named stays, and so do new names. Links are not followed."""
    parts = path.parts[len(root.parts) :]
    if not any(map(_has_forms, parts)) or os.path.lexists(path):
        return path
    found = root
    search = _Search()
    for at, part in enumerate(parts):
        exact = found / part
        if not os.path.lexists(exact):
            alike = search.entries_alike(found, part)
            if len(alike) != 1:
                return found.joinpath(*parts[at:])
            exact = found / alike[0]
        found = exact
    return found


def _has_forms(name: str) -> bool:
    has_forms = not name.isascii() or any(group[0] in name for group in ALIKE_SIGNS)
    return has_forms and len(name) <= MAX_NAME


@dataclass(slots=True)
class _Search:
    """Looks for names in the folders of one path, which may be many and large."""

    entries: int = MAX_ENTRIES
    characters: int = MAX_COMPARED

    def entries_alike(self, folder: Path, name: str) -> list[str]:
        if not _has_forms(name):
            return []
        wanted = plain_name(name)
        return [one for one in self._names(folder) if plain_name(one) == wanted]

    def _names(self, folder: Path) -> Iterator[str]:
        try:
            with os.scandir(folder) as listing:
                names = [entry.name for entry in itertools.islice(listing, self.entries)]
        except OSError:
            return
        self.entries -= len(names)
        for one in names:
            self.characters -= 0 if one.isascii() else len(one)
            if self.characters >= 0:
                yield one
