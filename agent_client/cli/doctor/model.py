"""Check of the model: it answers through the host, or what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import CliError
from ..local import VARIABLES, Provider, data_dir, load_choice
from .finding import Finding, error, ok
from .host import Server, content

if TYPE_CHECKING:
    import httpx2

SECONDS = 60.0


async def check_model(server: Server, model: str) -> Finding:
    """Have the model answer one short message, through the host. It costs what those few words cost."""
    import httpx2

    body = {"model": model, "messages": [{"role": "user", "content": "Answer with the one word: ok"}]}
    url = f"{server.target.url.rstrip('/')}/v1/chat/completions"
    try:
        answer = await server.http.post(url, json=body, timeout=SECONDS)
    except httpx2.HTTPError as failure:
        return error("model", f"{model} does not answer: {failure or type(failure).__name__}", "try again later")
    if answer.is_success:
        return ok("model", f"{model} answers")
    fault = _openai_error(answer)
    return error(
        "model", f"{model}: {fault.get('message', answer.status_code)}", _fix(server, answer.status_code, fault)
    )


def _openai_error(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found: Any = content(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _fix(server: Server, status: int, fault: dict[str, Any]) -> str:
    provider = _provider_of(server)
    again = f"`agent down`, then `agent up --provider {provider}"
    code = str(fault.get("code"))
    if code == "provider_auth":
        return f"the key is wrong: {again}` asks for another, or takes {VARIABLES[provider]}_API_KEY"
    if code in ("provider_unreachable", "provider_timeout", "provider_dropped"):
        return f"is the address right, and the network there? {again} --base-url URL` sets another"
    if "model" in code or (status == 404 and "model" in str(fault.get("message")).lower()):
        return f"the provider does not have the model: {again} --model NAME` sets another"
    if status == 404:
        hint = ", it often ends in /v1" if provider == "openai-compatible" else ""
        return f"the base URL is probably wrong{hint}: {again} --base-url URL` sets another"
    if status == 429:
        return "the provider's quota is used up: see your account there"
    return "see the provider's message; `agent logs` and the host's log say more"


def _provider_of(server: Server) -> Provider:
    """Return the provider that `agent up` has chosen here, if this is its host."""
    try:
        choice = load_choice(data_dir()) if server.local else None
    except CliError:
        choice = None
    return choice.provider if choice is not None and choice.provider in VARIABLES else "openai-compatible"
