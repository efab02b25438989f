"""Reads the answers of model providers: what each says, what it used, and what its failure means.

Guest and host read by this package alone, so that both take an answer for the same.
"""

from .calls.arguments import mend_arguments
from .compression import Decompressor, decompress
from .errors.bodies import ErrorReport, named_fields, read_error_body
from .errors.failures import SHOULD_RETRY, from_event, from_response
from .errors.overflow import OverflowReport, overflow_of
from .errors.places import error_in
from .errors.waits import wait_of
from .events import DONE, MAX_LINE_BYTES, EventSplitter
from .finish_reasons import FAILED, StopReason, latest_reason, stop_reason
from .kept import MAX_KEPT_BYTES, bounded
from .pieces import AnswerPiece, CallPiece, CallStarted, ReasoningPiece, TextPiece, TextWasReasoning, ToolCall
from .reader import CompletionReader, read_event
from .usage import cache_written, cost_of, find_report, joined_report, read_usage, token_count, with_answer, with_cost
from .whole_object import DocumentEnd

__all__ = [
    "DONE",
    "FAILED",
    "MAX_KEPT_BYTES",
    "MAX_LINE_BYTES",
    "SHOULD_RETRY",
    "AnswerPiece",
    "CallPiece",
    "CallStarted",
    "CompletionReader",
    "Decompressor",
    "DocumentEnd",
    "ErrorReport",
    "EventSplitter",
    "OverflowReport",
    "ReasoningPiece",
    "StopReason",
    "TextPiece",
    "TextWasReasoning",
    "ToolCall",
    "bounded",
    "cache_written",
    "cost_of",
    "decompress",
    "error_in",
    "find_report",
    "from_event",
    "from_response",
    "joined_report",
    "latest_reason",
    "mend_arguments",
    "named_fields",
    "overflow_of",
    "read_error_body",
    "read_event",
    "read_usage",
    "stop_reason",
    "token_count",
    "wait_of",
    "with_answer",
    "with_cost",
]
