"""Python's own builtins, as they were before any code of a plugin ran. Runs in the worker."""

from __future__ import annotations

import builtins

_CURRENT = builtins.__dict__
_ORIGINAL = dict(_CURRENT)
_MISSING = object()


class Tampered(Exception):
    """The plugin has replaced what is not its own."""


class BuiltinsGuard:
    """Puts back whatever builtins were replaced or removed in here. Its end raises Tampered that names them, in place
    of whatever came of it: with other builtins nothing is to be trusted. New names are let be, some libraries add one.

    A class, because the end of a generator's context goes through builtins, and there they cannot be relied on.
    """

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        if changed := [name for name, own in _ORIGINAL.items() if _CURRENT.get(name, _MISSING) is not own]:
            _CURRENT.update(_ORIGINAL)
            raise Tampered(f"it replaced builtins.{', builtins.'.join(changed)}; leave Python's own names alone")
