"""Replies: the turns of an agent as posts of a chat."""

from .endings import Trouble, ending, trouble_of
from .file_links import HINT, FileLink, file_links
from .followers import Followers, is_removed_in
from .layout import FILE_NAME, MAX_MESSAGES, Layout, laid_out
from .rendition import Rendition

__all__ = [
    "FILE_NAME",
    "HINT",
    "MAX_MESSAGES",
    "FileLink",
    "Followers",
    "Layout",
    "Rendition",
    "Trouble",
    "ending",
    "file_links",
    "is_removed_in",
    "laid_out",
    "trouble_of",
]
