"""The package's dispatcher of messages, with answers that are mended before the package checks their form.

Imported only when a server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.dispatcher import CallOptions  # noqa: TID253  this module is loaded when a server is used
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher  # noqa: TID253  as above
from mcp.shared.transport_context import TransportContext  # noqa: TID253  as above

from ..tools.answers import mend_call_result, mend_handshake
from ..tools.listing import LeftOut, mend_listing


class MendingDispatcher(JSONRPCDispatcher[TransportContext]):
    """Sends requests to a server whose answers may not be quite of the protocol's form."""

    def __init__(self, *streams: Any) -> None:
        super().__init__(*streams)
        self.left_out = LeftOut()
        """The tools of all lists since this was last replaced that cannot be used."""

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Send a request and return its result, mended. Raises as the package's dispatcher does."""
        result = await super().send_raw_request(method, params, opts, **more)
        match method:
            case "tools/list":
                return mend_listing(result, self.left_out)
            case "tools/call":
                return mend_call_result(result)
            case "initialize" | "server/discover":
                return mend_handshake(result)
            case _:
                return {"resultType": "complete", **result}
