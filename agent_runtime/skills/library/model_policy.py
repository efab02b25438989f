"""Read from `agents/openai.yaml`, which Codex has beside a SKILL.md, whether a package is kept from models.

Only `allow_implicit_invocation` is looked for, as text, so that the file need not be YAML. A file that cannot be read
keeps its package from models, as it may say so; a person can still name the package.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8

from .front_matter import InvalidPackage, is_yes

POLICY_FILE = "agents/openai.yaml"
MAX_BYTES = 64 * 1024
"""Bytes of the file."""
_ALLOWED = re.compile(r"""\ballow_implicit_invocation["']?[ \t]*:[ \t]*["']?(\w*)""")


def keeps_from_models(data: bytes) -> bool:
    """Return whether a file keeps its package from models. `data`: its first bytes, more than `MAX_BYTES` if it is
    larger. Raises InvalidPackage if it cannot be told."""
    if len(data) > MAX_BYTES:
        raise InvalidPackage(f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise InvalidPackage("it is not UTF-8 text") from None
    found = (_ALLOWED.search(line.partition("#")[0]) for line in text.splitlines())
    return any(not is_yes(allowed[1]) for allowed in found if allowed is not None)
