"""Files both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..api_error import bad_request
from ..model import FileKind, StoredFile
from ..parameters import Parameters
from ..world import World
from .requests import read_buttons, read_caption, replied_message, topic_of, writable_chat

MOST_DOWNLOAD_BYTES = 20 * 1024 * 1024
_MOST_PHOTO_BYTES = 10 * 1024 * 1024


def get_file(world: World, parameters: Parameters) -> Any:
    if not parameters.text("file_id"):
        raise bad_request("file_id not specified")
    file = world.files.get(parameters.text("file_id"))
    if file is None:
        raise bad_request("invalid file_id")
    if file.size > MOST_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    shell = {"file_id": file.id, "file_unique_id": file.unique_id}
    return {**shell, "file_size": file.size, "file_path": file.path}


def send_file(kind: FileKind) -> Callable[[World, Parameters], Any]:
    """Return the method that sends a kind of file."""
    method = f"send{kind.capitalize()}"

    def send(world: World, parameters: Parameters) -> Any:
        content = read_caption(world, parameters)
        buttons = read_buttons(parameters)
        chat = writable_chat(world, parameters)
        file = _file(world, parameters, kind)
        reply_to = replied_message(chat, parameters)
        topic = topic_of(chat, parameters)
        world.limiter.admit(method, chat)
        silent = parameters.flag("disable_notification")
        content = replace(content, buttons=buttons, file=file)
        return world.post(chat, world.bot, content, reply_to=reply_to, topic=topic, silent=silent).to_json()

    return send


def _file(world: World, parameters: Parameters, kind: FileKind) -> StoredFile:
    upload = parameters.upload(kind)
    if upload is None:
        name = parameters.text(kind)
        if not name:
            raise bad_request(f"there is no {kind} in the request")
        if name not in world.files:
            raise bad_request("wrong remote file identifier specified: can't unserialize it. Wrong last symbol")
        return world.files[name]
    if not upload.content:
        raise bad_request("file must be non-empty")
    size = len(upload.content)
    if kind == "photo" and size > _MOST_PHOTO_BYTES:
        reason = f"file of size {size} bytes is too big for a photo"
        raise bad_request(f"{reason}; the maximum size is {_MOST_PHOTO_BYTES} bytes")
    return world.store_file(kind, upload.name, upload.media_type, upload.content)
