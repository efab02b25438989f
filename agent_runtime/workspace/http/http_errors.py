"""Convert failures of file operations to HTTP errors."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial

from ...errors import (
    AgentRuntimeError,
    Conflict,
    InvalidRequest,
    NotAllowed,
    NotFound,
    StorageFull,
    StoreError,
    ToolFailure,
)

_WRONG_NAME = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
_IN_ITS_WORDS: Mapping[int, Callable[[str], AgentRuntimeError]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), StorageFull),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), partial(NotAllowed, code="forbidden")),
    errno.EBUSY: partial(Conflict, code="mount_point"),
}


@contextmanager
def failures_as_http(path: str) -> Generator[None]:
    """Convert a ToolFailure about a path to the matching RequestError."""
    try:
        yield
    except ToolFailure as failure:
        raise _http_error(path, failure) from failure


def _http_error(path: str, failure: ToolFailure) -> AgentRuntimeError:
    cause = failure.__cause__
    if not isinstance(cause, OSError):
        return _own_check_error(failure)
    if isinstance(cause, FileNotFoundError):
        return NotFound(f"there is no {path} in the workspace", code="unknown_path")
    if isinstance(cause, NotADirectoryError):
        return Conflict(f"a part of {path} is not a folder, and links are not followed", code="not_a_folder")
    if cause.errno == errno.ELOOP:
        return NotAllowed(f"{path} is a link, and links are not followed", code="link")
    if cause.errno in _WRONG_NAME:
        return InvalidRequest(failure.message, faults=[("path", cause.strerror or "cannot be a name")])
    return _IN_ITS_WORDS.get(cause.errno or 0, StoreError)(failure.message)


def _own_check_error(failure: ToolFailure) -> AgentRuntimeError:
    """Convert a failure of our own checks: an invalid path, the wrong kind of file, or an exceeded quota."""
    if failure.message.startswith("path: "):
        return InvalidRequest(failure.message, faults=[("path", failure.message.removeprefix("path: "))])
    if failure.kind == "invalid":
        return Conflict(failure.message, code="not_a_file")
    if failure.kind == "denied":
        return NotAllowed(failure.message, code="link")
    return StorageFull(failure.message)
