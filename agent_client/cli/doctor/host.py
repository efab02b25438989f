"""Checks of the server that commands talk to: is it there, does it know the token, are its version and clock ours."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_common import __version__
from agent_common.net import trusting_tls

from ..contexts import Target
from .finding import Finding, error, ok, warning

if TYPE_CHECKING:
    import httpx2

SECONDS = 10.0
MOST_SKEW = 5.0
"""Seconds. Beyond them deadlines and expiries mean something else at the other end."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANOTHER = "`agent up` at the host's machine has one; `agent-host token operator` there makes another"


@dataclass(frozen=True, slots=True)
class Server:
    """The server of a target, asked once and without a second attempt."""

    target: Target
    http: httpx2.AsyncClient

    @property
    def local(self) -> bool:
        return urlsplit(self.target.url).hostname in _LOOPBACK

    async def get(self, path: str) -> httpx2.Response:
        return await self.http.get(self.target.url.rstrip("/") + path)


def open_client(target: Target) -> httpx2.AsyncClient:
    import httpx2

    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    local = urlsplit(target.url).hostname in _LOOPBACK
    return httpx2.AsyncClient(headers=headers, timeout=SECONDS, verify=trusting_tls(os.environ), trust_env=not local)


async def check_reachable(server: Server) -> Finding:
    import httpx2

    url = server.target.url
    start = "start it there; `agent context add` names another"
    if server.local:
        a_host = "`agent up` starts the host here"
        start = a_host if server.target.kind == "host" else f"`agent-runtime serve` starts an agent, and {a_host}"
    try:
        answer = await server.get("/readyz")
        known: Any = content(answer)
        reasons = known["reasons"]
    except httpx2.HTTPError as failure:
        return error("reachable", f"{url} does not answer: {failure or type(failure).__name__}", start)
    except (ValueError, KeyError, TypeError):
        fix = "another program has the port; `agent up` starts a host at another, and `agent context add` names one"
        return error("reachable", f"what answers at {url} is neither a host nor an agent", fix)
    if reasons:
        return error("reachable", f"{url} is not ready: {', '.join(map(str, reasons))}", "its log says why")
    return ok("reachable", f"{url} answers")


async def check_token(server: Server) -> list[Finding]:
    """Whether the host knows the token, and then its version and clock. The first finding is that of the token."""
    asked = time.time()
    answer = await server.get("/version")
    if answer.status_code == 401:
        text = content(answer).get("detail", "it is not known")
        if server.target.kind is None:  # without the right token neither says what it is
            fix = f"of an agent, give its AGENT_TOKEN in that variable, or with --token-file; of a host, {_ANOTHER}"
            return [error("token", f"what answers refuses the token: {text}", fix)]
        return [error("token", f"the host refuses the token: {text}", _ANOTHER)]
    if answer.status_code == 403:
        return [ok("token", "the host knows the token, which is not the operator's; the rest is for the operator")]
    if answer.status_code == 404:
        fix = "install the same version on both ends, then restart the host"
        return [ok("token", "accepted"), warning("version", "the host is older than this command", fix)]
    known = content(answer)
    skew = known["now"] / 1000 - (asked + time.time()) / 2
    return [ok("token", "the host knows the operator's token"), _check_version(known["version"]), _check_clock(skew)]


def _check_version(other: str) -> Finding:
    own = __version__
    if other != own:
        fix = "install the same version on both ends; after an upgrade here: `agent down`, then `agent up`"
        return warning("version", f"the host is {other}, this command {own}", fix)
    return ok("version", f"both ends are {own}")


def _check_clock(skew: float) -> Finding:
    if abs(skew) > MOST_SKEW:
        what = f"the host's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this one"
        return warning("clock", what, "set both by NTP, e.g. `timedatectl set-ntp true`")
    return ok("clock", "both clocks agree")


def content(answer: httpx2.Response) -> Any:
    """Return the JSON of an answer. Raises ValueError."""
    from agent_common.json_reader import JsonLimits, read_json

    return read_json(answer.content, JsonLimits(1 << 20))
