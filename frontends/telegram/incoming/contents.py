"""What a message has in it: its text, and its files."""

from __future__ import annotations

from collections.abc import Sequence

from telegram import (
    Animation,
    Audio,
    Document,
    Message,
    MessageEntity,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    Video,
    Voice,
)

from ...platform import IncomingFile
from .mentions import entities_in, utf8_text


def text_of(message: Message) -> tuple[str, Sequence[MessageEntity]]:
    """Return the text or the caption, and its entities; for what has neither, a line that says what it is."""
    if message.text is not None:
        return message.text, message.entities or entities_in(message.text)
    if message.caption is not None:
        return message.caption, message.caption_entities or entities_in(message.caption)
    return _description(message), ()


def _description(message: Message) -> str:
    if message.sticker:
        return message.sticker.emoji or "[a sticker]"
    if location := message.venue.location if message.venue else message.location:
        title = f"{message.venue.title}, " if message.venue else ""
        return f"[a place: {title}{location.latitude:.5f}, {location.longitude:.5f}]"
    if contact := message.contact:
        known = (contact.first_name, contact.last_name, contact.phone_number)
        return f"[a contact: {' '.join(part for part in known if part)}]"
    return ""


def author_of(origin: MessageOrigin) -> str:
    """Return who wrote a message that is forwarded, or quoted from another chat."""
    match origin:
        case MessageOriginUser(sender_user=user):
            name = user.full_name
        case MessageOriginHiddenUser(sender_user_name=name):
            pass
        case MessageOriginChat(sender_chat=chat) | MessageOriginChannel(chat=chat):
            name = chat.effective_name or ""
        case _:
            name = ""
    return utf8_text(" ".join(name.split())) or "an unknown sender"


def attached_files(message: Message) -> list[IncomingFile]:
    """Return the files of a message. A photo has several sizes; the largest counts."""
    number = message.message_id
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        return [IncomingFile(largest.file_id, f"photo-{number}.jpg", "image/jpeg", largest.file_size)]
    if animation := message.animation:  # comes as a document too
        return [_file(animation, animation.file_name or f"animation-{number}.mp4", "video/mp4")]
    if document := message.document:
        return [_file(document, document.file_name or f"document-{number}", "application/octet-stream")]
    if voice := message.voice:
        return [_file(voice, f"voice-{number}.ogg", "audio/ogg")]
    if audio := message.audio:
        return [_file(audio, audio.file_name or f"audio-{number}.mp3", "audio/mpeg")]
    if video := message.video:
        return [_file(video, video.file_name or f"video-{number}.mp4", "video/mp4")]
    if note := message.video_note:
        return [IncomingFile(note.file_id, f"video-{number}.mp4", "video/mp4", note.file_size)]
    return []


def _file(file: Animation | Audio | Document | Video | Voice, name: str, media_type: str) -> IncomingFile:
    return IncomingFile(file.file_id, utf8_text(name), utf8_text(file.mime_type or media_type), file.file_size)
