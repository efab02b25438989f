"""`web_fetch`: reads the text of a page on the web."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agent_common.errors import cut
from agent_common.protocol import Net, RequirementSet
from agent_common.protocol.authority import Access, matches

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...sandbox import SPILL_LIMIT, Confinement, SandboxLimits, SandboxSpec
from ..core.contract import AccessRequest, Output, Tool
from ..core.envelope import HEAD_LENGTH, Spill, spill_text
from .content_decoding import ContentKind, decode_body, detect_kind

if TYPE_CHECKING:
    from agent_common.net import FetchedPage, WebClient

FETCH_LIMIT = 200 * 1024
"""Maximum bytes of text in one answer."""
FETCH_SECONDS = 30.0
EXTRACT_SECONDS = 8.0
HTML_LIMIT = 4 * 1024 * 1024
"""Maximum characters of a page that are processed."""
MAX_SHOWN_URL = 200
"""Maximum characters of a URL in an error."""
EXTRACT_PROGRAM = Path(__file__).with_name("extract.py")
RESULT_DOC = "`url` (where it ended), `status`, `content_type`, `text`, `total_bytes?`, `note?`"
LIMITS_DOC = f"public hosts only ([page](network.md)); {FETCH_LIMIT // 1024} KB an answer, 10 MiB read"
HEADERS = {"accept": "text/html,application/xhtml+xml,text/markdown,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5"}
EXTRACT_LIMITS = SandboxLimits(memory=512 * 1024 * 1024, processes=256, cpu_seconds=30)

DESCRIPTION = (
    "Fetch a page from the web by its URL and read what it says: the main text of HTML as Markdown with its links, "
    "other text as it is. Only public hosts, only GET; redirects are followed, and `url` says where they led. A status "
    "that is not 2xx is an answer too: look at `status`. An answer holds up to 200 KB; the whole is then at "
    "output_path. Not for images, PDF and other binary files, not for pages behind a login, and not to find a page "
    "(web_search)."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "minLength": 1, "description": "Whole, with http:// or https://"},
        "max_bytes": {
            "type": "integer",
            "minimum": 1,
            "maximum": FETCH_LIMIT,
            "description": f"Most bytes of text in the answer; default: {FETCH_LIMIT}",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class PageReader:
    """Extracts the text of pages in a separate process."""

    confinement: Confinement
    program: Path = EXTRACT_PROGRAM
    seconds: float = EXTRACT_SECONDS

    async def read(self, page: str, url: str, context: ToolContext) -> str:
        """Return the text of a page as Markdown. Raises ToolFailure."""
        request = json.dumps({"url": url}).encode()
        done = await self.confinement.run(
            (sys.executable, "-I", str(self.program)),
            SandboxSpec(workdir=context.scratch, readable=(context.scratch,), limits=EXTRACT_LIMITS),
            timeout=self.seconds,
            stdin=b"%s\n%s" % (request, page[:HTML_LIMIT].encode(errors="replace")),
            output_limit=SPILL_LIMIT * 4,
            helper=True,
        )
        if done.timed_out:
            raise ToolFailure(f"extracting the page's text took longer than {self.seconds:g} s", kind="timeout")
        if done.exit_code != 0:
            why = done.stderr.strip()[-200:] or f"ended with {done.exit_code}"
            raise ToolFailure(f"the page's text could not be extracted: {why}")
        return done.stdout


def web_fetch_tool(egress: WebClient, reader: PageReader) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        approved = _names(arguments["url"])[0] if context.approved else None

        async def admitted(url: str) -> str | None:
            return await asyncio.to_thread(_refusal, url, context, approved)

        count = context.egress.count_sent if context.egress is not None else None
        found = await egress.fetch(arguments["url"], HEADERS, admitted, count)
        kind = detect_kind(found.headers.get("content-type", ""), found.body)
        text = await _page_text(found, kind, reader, context)
        return await _output(found, kind, text, arguments.get("max_bytes", FETCH_LIMIT), context)

    spec = ToolSpec("web_fetch", DESCRIPTION, PARAMETERS, read_only=True, idempotent=True)
    return Tool(
        spec,
        run,
        RequirementSet(net=Net(hosts=["*"])),
        timeout=FETCH_SECONDS,
        describe_access=_describe_access,
        result_doc=RESULT_DOC,
        limits_doc=LIMITS_DOC,
    )


async def _describe_access(arguments: Mapping[str, Any], _: ToolContext) -> AccessRequest:
    url: str = arguments["url"]
    host, *names = _names(url)
    return AccessRequest((host,), ((*names, url),), requires=RequirementSet(net=Net(hosts=[host])))


def _names(url: str) -> tuple[str, str, str, str]:
    """Return what rules call a page: its host, its URL as it is sent, the same without escapes, and as a lenient server
    reads it. Raises ToolFailure if the URL cannot be fetched."""
    from agent_common.net import as_servers_read, parse_url

    at = parse_url(url)
    return at.host, str(at), unquote(str(at)), as_servers_read(at)


def _refusal(url: str, context: ToolContext, approved: str | None) -> str | None:
    """Return why a URL may not be fetched, None if it may. Called for every redirect too, which may lead to a host or a
    page that rules do not allow, or to another host than the one that a person has approved."""
    host, *names = _names(url)
    lacks = context.authority.missing_grant(RequirementSet(net=Net(hosts=[host])), context.variables)
    decision = context.authority.decide(Access("web_fetch", (), ("net.fetch",), (), (host,), (tuple(names),)))
    unasked = decision.action == "ask" and host != approved
    if lacks is not None or decision.action == "deny" or unasked:
        by_page = lacks is None and decision.rule is not None and not matches(decision.rule.pattern, host)
        return f"agent {context.agent} may not reach {cut(url, MAX_SHOWN_URL) if by_page else host}"
    return None


async def _page_text(found: FetchedPage, kind: ContentKind, reader: PageReader, context: ToolContext) -> str:
    if not kind.is_text and found.body:
        named = kind.type if kind.type.count("/") == 1 else "a binary file"
        advice = "web_fetch shows text only; look for the same as a page or as plain text"
        raise ToolFailure(f"{found.url} is {named[:100]} ({len(found.body)} bytes); {advice}", kind="invalid")
    text = await asyncio.to_thread(decode_body, found.headers.get("content-type", ""), found.body, html=kind.is_html)
    return await reader.read(text, found.url, context) if kind.is_html else text


async def _output(found: FetchedPage, kind: ContentKind, text: str, max_bytes: int, context: ToolContext) -> Output:
    data: dict[str, Any] = {"url": found.url, "status": found.status, "content_type": kind.type, "text": text}
    whole = text.encode(errors="replace")
    spill = Spill(None)
    if len(whole) > max_bytes:
        data["head"] = text[: min(HEAD_LENGTH, max_bytes)]
        data["text"] = whole[:max_bytes].decode(errors="ignore")
        data["total_bytes"] = len(whole)
        spill = await asyncio.to_thread(spill_text, text, context.scratch)
    if found.truncated:
        data["note"] = f"the answer is longer; only its first {len(found.body)} bytes were read"
    elif kind.is_html and found.body and not text.strip():
        data["note"] = "the page holds no text; it may be made by a script, which web_fetch does not run"
    if spill.fault:
        data["note"] = "; ".join(one for one in (data.get("note"), spill.fault) if one)
    truncated = "total_bytes" in data or found.truncated
    return Output(data, truncated=truncated, output_path=spill.path, already_bounded=True)
