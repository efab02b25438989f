"""The certificate authorities that TLS connections trust: the public ones, and those that the environment names."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

EXTRA_VARIABLE = "AGENT_CA_FILE"
"""Names a file whose authorities are trusted beside all others."""
FILE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Of OpenSSL, requests and curl: the first that is set names the authorities in place of the public ones."""
FOLDER_VARIABLE = "SSL_CERT_DIR"
NAMING_VARIABLES = (EXTRA_VARIABLE, *FILE_VARIABLES, FOLDER_VARIABLE)


@cache
def public_tls() -> ssl.SSLContext:
    """Return the context for connections to servers. Cached, because reading the authorities takes 20 ms."""
    return trusting_tls(os.environ)


def trusting_tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return a new context with the authorities that the variables name, else the public ones.

    Raises ValueError that names the variable, if its file cannot be read.
    """
    named = dict(_named(environment))
    context = _public() if named.keys() <= {EXTRA_VARIABLE} else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for variable, path in named.items():
        _add(context, variable, path)
    return context


def authorities_pem(environment: Mapping[str, str]) -> str | None:
    """Return all authorities that `trusting_tls` trusts as one text in PEM, for what takes a file in the place of a
    context; None if no variable names any. Raises ValueError that names the variable, if its file cannot be read."""
    named = dict(_named(environment))
    if not named:
        return None
    context = trusting_tls(environment)
    for folder in filter(Path.is_dir, named.values()):  # a context reads those of a folder when it meets a server
        for path in sorted(folder.iterdir()):
            with suppress(OSError):  # what holds none, as OpenSSL ignores it; ssl.SSLError is one
                context.load_verify_locations(cafile=path)
    return "".join(map(ssl.DER_cert_to_PEM_cert, context.get_ca_certs(binary_form=True)))


def _named(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the variables that name authorities, with what they name."""
    file = next((name for name in FILE_VARIABLES if environment.get(name)), None)
    for variable in (file, FOLDER_VARIABLE, EXTRA_VARIABLE):
        if variable and (path := environment.get(variable)):
            yield variable, Path(path)


def _public() -> ssl.SSLContext:
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def check_authorities(path: Path) -> None:
    """Raise ValueError if the file has no certificate authorities."""
    _add(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), EXTRA_VARIABLE, path)


def _add(context: ssl.SSLContext, variable: str, path: Path) -> None:
    try:
        # REQUESTS_CA_BUNDLE may name a folder, too.
        context.load_verify_locations(**{"capath" if path.is_dir() else "cafile": str(path)})
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"{variable}: {path} cannot be used: {why}") from None
