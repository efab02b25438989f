"""Discord: bots by its gateway and REST API, through discord.py."""

import os

# aiohttp reads the authorities when it is imported, for a context of its own that nothing here uses: 1 MiB.
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_given = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
os.environ.update(dict.fromkeys(_VARIABLES, os.devnull))
try:
    from .platform import DiscordPlatform
finally:
    for _name in _VARIABLES:
        del os.environ[_name]
    os.environ.update(_given)

__all__ = ["DiscordPlatform"]
