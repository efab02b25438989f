"""Telegram, as a platform that bots run on."""

import os
import sys
from typing import Any, cast

_modules = cast("dict[str, Any]", sys.modules)
# The library imports these if they are installed. They are httpx's command line and what reads Telegram Passport, take
# 18 MiB, and nothing uses them. None makes an import fail.
_unused = [name for name in ("httpx._main", "cryptography") if name not in _modules]
_modules.update(dict.fromkeys(_unused))
# The library warns at every `retry_after` until one asks for its newer type.
os.environ.setdefault("PTB_TIMEDELTA", "1")
try:
    from .platform import TelegramPlatform
finally:
    for _name in _unused:
        del _modules[_name]

__all__ = ["TelegramPlatform"]
