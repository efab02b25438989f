"""Restore Python's builtins as they were before any code of a plugin ran."""

from __future__ import annotations

import builtins

_CURRENT = builtins.__dict__
_ORIGINAL = dict(_CURRENT)
_MISSING = object()


class Tampered(Exception):
    """The plugin has replaced builtins."""


class BuiltinsGuard:
    """Restore the builtins that were replaced or removed within the block, and raise Tampered that names them, in place
    of the block's outcome: a result made with other builtins is not trusted. New names stay; some libraries add one.

    A class, because a generator's context manager uses builtins at its end, where they cannot be relied on.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        if changed := [name for name, own in _ORIGINAL.items() if _CURRENT.get(name, _MISSING) is not own]:
            _CURRENT.update(_ORIGINAL)
            raise Tampered(f"it replaced builtins.{', builtins.'.join(changed)}; leave Python's own names alone")
