"""Secrets for web services: kept on the host, given to no agent, never printed and never logged."""

from .kept import KeptSecret, KeptSecrets
from .sources import CommandSource, FileSource, Secrets, SecretSource, SecretUnavailable
from .store import SecretStore, StoredSecret, checked_name, checked_value

__all__ = [
    "CommandSource",
    "FileSource",
    "KeptSecret",
    "KeptSecrets",
    "SecretSource",
    "SecretStore",
    "SecretUnavailable",
    "Secrets",
    "StoredSecret",
    "checked_name",
    "checked_value",
]
