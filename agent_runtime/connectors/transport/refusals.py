"""Explain answers with status 401 or 403.

The body of such an answer is replaced by a JSON-RPC error with the reason, so that the refused request fails with it.
Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..tools.schemas import plain_text

REFUSAL_STATUSES = frozenset({401, 403})
REFUSED_CODE = -31401
"""The code of the error, outside the range that JSON-RPC reserves."""
WRONG_CREDENTIALS = "it refused our credentials; the operator must renew them"
NO_CREDENTIALS = (
    'it wants credentials, and none are configured: add "headers": {"Authorization": "Bearer ${NAME}"}, or "oauth"'
)
_SCOPE = re.compile(r'\bscope="([^"]*)"')


def refusal_reason(status: int, headers: Mapping[str, str], *, credentials: bool) -> str:
    """Explain a refusal by its status and headers. `credentials`: whether any are configured."""
    challenge = headers.get("www-authenticate", "")
    if status == 403 and "insufficient_scope" in challenge:
        scope = _SCOPE.search(challenge)
        wanted = f"the scope {plain_text(scope[1])!r}" if scope else "a wider scope"
        return f"it wants {wanted}, which our credentials do not have; the operator must get new ones with it"
    if credentials:
        return WRONG_CREDENTIALS
    return NO_CREDENTIALS if status == 401 else "it answered 403 Forbidden, and no credentials are configured"


def error_body(reason: str) -> bytes:
    """Return a JSON-RPC error with the reason, as the body of the answer to any request."""
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": REFUSED_CODE, "message": reason}}).encode()
