"""Texts and their entities, as Telegram reads them."""

from .detection import detect
from .text import formatted_text
from .utf16 import length, utf16_offsets

__all__ = ["detect", "formatted_text", "length", "utf16_offsets"]
