"""What a conversation looks like in the scrollback: blocks that are printed once, and the live end of the reply."""

from .changes import FileChange, change_lines, counted, difference
from .markdown_stream import MarkdownStream
from .markdown_view import Prose
from .marked import POINTER, Marked
from .out import Out
from .paper import Paper
from .tool_blocks import questions_of
from .tool_lines import QUESTION, SPINNER, ToolLine, backup_of
from .transcript import Transcript

__all__ = [
    "POINTER",
    "QUESTION",
    "SPINNER",
    "FileChange",
    "MarkdownStream",
    "Marked",
    "Out",
    "Paper",
    "Prose",
    "ToolLine",
    "Transcript",
    "backup_of",
    "change_lines",
    "counted",
    "difference",
    "questions_of",
]
