"""Files that an answer sends: it links them, as in `[the report](workspace:report.pdf)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote

from ..words import code

HINT = (
    "To send a file of your workspace to this chat, link it in your answer as [its name](workspace:path/to/file.pdf)."
)
"""What an agent learns about it, with the first message of a session."""
MAX_FILES = 5
# No bracket within the name: else each of many would be read on from.
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\((?:<workspace:([^>\n]{1,500})>|workspace:([^)\s]{1,500}))\)")
_FENCED = re.compile(r"^ {0,3}(`{3,}+|~{3,}+).*?(?:^ {0,3}\1[`~]*\s*$|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileLink:
    """A file of the workspace that goes to the chat."""

    path: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def file_links(text: str) -> Sequence[FileLink]:
    """Return the files that an answer links outside of blocks of code, each once."""
    found = (unquote(one[2] or one[3]) for one in _LINK.finditer(_FENCED.sub("", text)))
    return tuple(FileLink(path) for path in dict.fromkeys(found) if _is_plain(path))[:MAX_FILES]


def with_names(text: str) -> str:
    """Return the text with the names of the files in the place of the links, which lead nowhere in a chat."""
    return _LINK.sub(lambda found: f"📎 {code(PurePosixPath(unquote(found[2] or found[3])).name)}", text)


def _is_plain(path: str) -> bool:
    """Whether it is a path within the workspace, in its one spelling."""
    pieces = path.split("/")
    return path.isprintable() and not any(piece in ("", ".", "..") for piece in pieces) and len(path) <= 500
