"""Files that people send: they go to the workspace, under names of our own, piece by piece."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_client import Agent, ApiError, ClientError

from ...platform import IncomingFile, PlatformError, TemporarilyUnavailable, Update
from ..bot import Later
from ..context import Context, key_of
from ..replies import trouble_of
from ..words import code
from .words_of_people import StoredFile

FOLDER = "inbox"
MAX_FILES = 10
MAX_BYTES = 8 * 1024 * 1024
"""What an agent takes as one file."""
RECEIVE_SECONDS = 200.0
"""For the files of one message. The rest of the time that an update has is for the message itself."""
NAME_CHARACTERS = 60
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")


class _TooLarge(Exception):
    pass


@dataclass(frozen=True, slots=True)
class ReceivedFiles:
    """The files of a message."""

    stored: list[StoredFile]
    refused: list[str]
    """Why others were not taken, in words for the chat."""


def safe_name(name: str) -> str:
    """Return a name that is one of a file in any shell, in any listing, on any system."""
    path = PurePosixPath(name.replace("\\", "/"))
    suffix = _NOT_IN_NAMES.sub("", path.suffix)[:12]
    stem = _NOT_IN_NAMES.sub("_", path.name[: len(path.name) - len(path.suffix)]).strip("._-")
    return (stem[:NAME_CHARACTERS] or "file") + (suffix if len(suffix) > 1 else "")


def safe_type(media_type: str) -> str:
    """Return a media type without parameters; the general one in place of what is none."""
    given = media_type.partition(";")[0].strip().lower()
    return given if _MEDIA_TYPE.fullmatch(given) else "application/octet-stream"


async def receive_files(
    context: Context, agent: Agent, update: Update, seconds: float = RECEIVE_SECONDS
) -> ReceivedFiles:
    """Put the files of a message into the workspace. The same message puts them at the same paths. Those that do not
    arrive in time are refused: a message that waited for them would hold up its chat for ever. Raises Later."""
    received = ReceivedFiles([], [])
    due = asyncio.get_running_loop().time() + seconds
    key = key_of(context.bot.name, update.id)[:8]
    for number, file in enumerate(update.files[:MAX_FILES]):
        path = f"{FOLDER}/{key}-{number + 1}-{safe_name(file.name)}"
        try:
            async with asyncio.timeout_at(due):
                size = await _store(context, agent, file, path)
            received.stored.append(StoredFile(path, safe_type(file.media_type), size))
        except _TooLarge:
            limit = _limit(context) // 1024
            received.refused.append(f"📎 {code(file.name)} was not taken: a file may have {limit} KiB at most.")
        except (TemporarilyUnavailable, ClientError) as error:
            words = _words_or_later(error)
            received.refused.append(f"📎 {code(file.name)} was not taken. {words}")
        except TimeoutError:
            received.refused.append(f"📎 {code(file.name)} was not taken: it did not arrive within {seconds:g} s.")
        except PlatformError:
            received.refused.append(f"📎 {code(file.name)} cannot be fetched any more.")
    if len(update.files) > MAX_FILES:
        received.refused.append(f"📎 Only the first {MAX_FILES} files were taken.")
    return received


def _limit(context: Context) -> int:
    return min(context.bot.platform.limits.download_bytes, MAX_BYTES)


def _words_or_later(error: TemporarilyUnavailable | ClientError) -> str:
    if isinstance(error, TemporarilyUnavailable):
        raise Later(error.retry_after, "The file cannot be fetched right now.") from error
    if isinstance(error, ApiError) and error.status == 507:
        return "The workspace is full."
    if (trouble := trouble_of(error)).passing:
        raise Later(getattr(error, "retry_after", None), trouble.words) from error
    return trouble.words


async def _store(context: Context, agent: Agent, file: IncomingFile, path: str) -> int:
    """Put one file in place and return its size."""
    limit = _limit(context)
    size = 0
    if file.size is not None and file.size > limit:
        raise _TooLarge

    async def pieces() -> AsyncGenerator[bytes]:
        nonlocal size
        async with aclosing(context.bot.platform.download(file)) as downloaded:
            async for piece in downloaded:
                size += len(piece)
                if size > limit:
                    raise _TooLarge
                yield piece

    async with aclosing(pieces()) as content:
        await agent.files.write(path, content)
    return size
