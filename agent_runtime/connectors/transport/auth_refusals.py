"""The reason that is given when a server answers 401 or 403.

The answer's body is replaced by a JSON-RPC error with that reason, so that it reaches the request that was refused.
Imported only when such a server is to be reached: it needs the packages that take long to load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..tools.schemas import plain_text

REFUSAL_STATUSES = frozenset({401, 403})
REFUSED_CODE = -31401
"""The code of the error; outside of what JSON-RPC reserves."""
WRONG_CREDENTIALS = "it refused our credentials; the operator must renew them"
NO_CREDENTIALS = (
    'it wants credentials, and none are configured: add "headers": {"Authorization": "Bearer ${NAME}"}, or "oauth"'
)
_SCOPE = re.compile(r'\bscope="([^"]*)"')


def refusal_reason(status: int, headers: Mapping[str, str], *, credentials: bool) -> str:
    """Explain a refusal by its status and headers. `credentials`: some are configured."""
    challenge = headers.get("www-authenticate", "")
    if status == 403 and "insufficient_scope" in challenge:
        scope = _SCOPE.search(challenge)
        wanted = f"the scope {plain_text(scope[1])!r}" if scope else "a wider scope"
        return f"it wants {wanted}, which our credentials do not have; the operator must get new ones with it"
    if credentials:
        return WRONG_CREDENTIALS
    return NO_CREDENTIALS if status == 401 else "it answered 403 Forbidden, and no credentials are configured"


def error_body(reason: str) -> bytes:
    """Return the body of an answer to whatever request was refused."""
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": REFUSED_CODE, "message": reason}}).encode()
