"""What the failure of a model call means, in one place: by status, codes and words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from ...errors import ModelError, ModelErrorCode
from ...protocol import is_object
from .bodies import ErrorReport, read_error, read_error_body
from .loading import plainly_tells_of_loading, tells_of_loading
from .overflow import is_about_rates, overflow_of, tells_of_a_long_prompt, without_pointers
from .places import base_resp_code
from .waits import wait_of

_OVERFLOW_CODE = re.compile(
    r"context(?!.{0,3}deadline).{0,20}(?:exceeded|overflow|too_?long)|exceed.{0,5}context"
    r"|prompt.{0,12}(?:exceeded|too_?long)|input_too_long|^request_too_large$|^1261$"  # z.ai
)
"""A `context deadline` is the time of a call, in servers that are written in Go."""
_TOO_MANY_TOKENS = "too many tokens"
"""Of a prompt, or in a time."""
_OVERFLOW_WORDS = (
    *("context length", "context window", "maximum context", _TOO_MANY_TOKENS, "context_length_exceeded"),
    "contextwindowexceeded",  # LiteLLM
    "context size",  # llama.cpp
    "context limit",  # Anthropic, with the room for the reply
    "prompt is too long",  # Anthropic
    "prompt too long",  # Ollama
    "input is too long",  # Bedrock
    "input too long",
    "input length",  # DashScope, SGLang
    "maximum prompt length",  # xAI
    "model token limit",  # Moonshot
    "exceeds the maximum number of tokens",  # Gemini
    "prompt exceeds max length",  # z.ai
    "request entity too large",
    "request body too large",  # GitHub
    *("maximum model length", "max_seq_len", "max message tokens"),  # vLLM, SiliconFlow, Doubao
    *("n_ctx", "aierror: request too large"),  # LM Studio, Cloudflare
    *("max bytes to request body", "exceed model max"),  # DashScope
    *("maximum sequence length", "max sequence length", "input tokens exceed", "prompt tokens too long"),
    *("reduce the length of the messages", "reduce the length of the prompt"),
    *("prompt \u8d85\u957f", "prompt\u8d85\u957f"),  # z.ai
)
_NO_ROOM = re.compile(
    r"max_(?:completion_|new_|output_)?tokens\b[^.]{0,60}(?:\. )?(?:got|given|provided|received|\[\d{1,6},)\W{0,4}?-\d"
)
"""Of servers that compute the limit of the answer from the room that the prompt has left, such as vLLM."""
_PROMPT_WORDS = ("input", "prompt", "messages")
"""Words for the input. An error about sizes without them concerns the answer."""
_TOO_LONG_A_TEXT = frozenset(("string_above_max_length", "array_above_max_length"))
_OF_A_MESSAGE = re.compile(
    r"(?<![\w.])(?:messages?|input|instructions|prompt)(?:\[\d+\]|\.\d+)?"
    r"(?:\.content\b|\.output\b|\.tool_calls\S{0,20}\.arguments\b|'|$)|(?<![\w.])content\b",
    re.IGNORECASE,
)
_NAMED_MEMBER = re.compile(r"\.(?:name|description|id|tool_call_id|user|key|parameters)\b|\bdescription\b|\bname\b")
_RATE_CODES = frozenset(("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "429", "1002", "1039"))
_RATE_CODE = re.compile(r"rate_?limit|too_?many_?requests|resource_?exhausted|^130[2-5]$")  # z.ai
_RATE_WORDS = (
    *("rate limit", "too many requests", "rate-limited", "per minute", "qps"),
    *("concurrent request limit", "too many concurrent", "concurrency limit"),
)
_THROTTLED = "throttl"
_QUOTA_CODES = frozenset((
    *("insufficient_quota", "exceeded_current_quota_error", "billing_hard_limit_reached", "billing_error", "arrearage"),
    *("allocationquota.freetieronly", "1008", "2056"),  # DashScope, MiniMax
    *("1113", "1304", "1308", "1309", "1310"),  # z.ai
    "billing_not_active",  # OpenAI
    *("insufficient_balance", "not_enough_balance"),
    *("insufficient_user_quota", "pre_consume_token_quota_failed"),  # New API, One API
    *("accountquotaexceeded", "budget_exceeded", "creditserror"),  # Volcengine, LiteLLM, OpenCode
))  # fmt: skip
BUDGET_EXHAUSTED: Literal["budget_exhausted"] = "budget_exhausted"
"""The mesh's own code, with the status 402."""
_QUOTA_WORDS = (
    *("credit balance", "insufficient balance", "insufficient credits", "insufficient credit", "more credits"),
    *("out of credits", "insufficient funds", "payment required", "exceeded your monthly", "overdue"),
    *("quota has been exhausted", "balance is not enough", "no credits"),
    *("insufficient account balance", "balance is insufficient", "not enough balance", "quota is not enough"),
    *("any credits", "used all available credits", "spending limit", "api usage limits", "monthly usage quota"),
    "budget has been exceeded",  # LiteLLM
    *("\u989d\u5ea6\u4e0d\u8db3", "\u989d\u5ea6\u5df2\u7528\u5c3d", "\u4f59\u989d\u4e0d\u8db3"),  # New API, z.ai
    "total request limit reached",  # Baidu
    *("key limit exceeded", "free tier of the model has been exhausted"),  # OpenRouter, DashScope
    *("account is not active", "credits are depleted"),  # OpenAI, Google
)
_LASTING_LIMIT = re.compile(
    r"per[ _-]?day|\bdaily (?:[a-z]{1,20} ){0,3}(?:limit|quota|allocation|cap)\b"
    r"|\b(?:weekly|monthly|hourly|session)\b[^.]{0,30}\b(?:usage limit|limit exhausted|spend\w{0,5} cap)\b"
    r"|\busage limit (?:reached )?for (?:\d{1,3} hours?|this billing cycle)\b"
    r"|\bper month request limit\b|\bcalls / month\b"  # Cohere
)
"""Of a limit that lasts longer than any attempt waits."""
_SPENT = re.compile(
    r"\bout of [a-z ]{0,20}quota|\bquota\b[^.]{0,40}\b(?:exceeded|exhausted|used up|reached)\b"
    r"|\b(?:reached|exceeded|hit) (?:the|your) (?:[a-z]{1,20} ){0,3}usage limit|\bexceeded(?:token)?budget\b"
)
"""Of a 401 or 403 that is about a quota and not about the key, as of Azure's API Management, plans and LiteLLM."""
_AUTH_CODES = frozenset((
    *("provider_auth", "invalid_api_key", "invalidapikey", "authentication_error", "invalid_authentication_error"),
    *("unauthenticated", "permission_error", "permission_denied", "1004"),
))  # fmt: skip
_KEY_WORDS = (
    *("api_key_invalid", "api key not valid", "api key expired"),  # Google
    *("missing authorization header", "invalid authorization header"),
    *("incorrect api key", "invalid api key"),  # xAI
)
"""Of a 400 that is about the key."""
_REFUSED_CODES = frozenset((
    *("content_filter", "content_policy_violation", "data_inspection_failed", "moderation", "sensitive"),
    *("image_content_policy_violation", "censorship_blocked", "1301", "1026", "1027"),
))  # fmt: skip
_FLAGGED_CODES = frozenset(("cyber_policy", "bio_policy", "cyber_policy_violation"))
"""Refusals that cost the account if they are repeated, so that they count with any status, as gateways change it."""
_SENSITIVE_CODE = "sensitivecontent"
"""Part of Volcengine's codes."""
_LEGAL_STATUS = 451
_OF_THE_ACCOUNT = (401, 402)
"""Statuses that say what is wrong. Words about contents are advice there."""
_REFUSED_WORDS = (
    *("was flagged", "content policy", "content management policy", "content filter", "moderation", "usage polic"),
    *("inappropriate content", "unsafe content", "safety system", "data_inspection_failed", "content_policy"),
    *("prohibited content", "sensitive content", "blocked by the content", "harmful content"),
    *("usage guidelines", "content exists risk", "content for safety reasons"),  # xAI, DeepSeek, OpenAI
    *("contain sensitive information", "by safety settings"),  # Volcengine, Google
    *("by guardrail", "by the guardrail", "by a guardrail", "violated guardrail"),
    *("contains sensitive words", "security check fail", "considered high risk"),  # Google, Baidu, Moonshot
    *(f"{what} has been flagged" for what in ("request", "prompt", "content", "input")),
    *("\u654f\u611f\u4fe1\u606f", "\u654f\u611f\u5185\u5bb9", "\u4e0d\u5b89\u5168", "\u4e0d\u5408\u89c4"),  # in Chinese
)
_WHERE = re.compile(
    r"country[,_] ?region|not (?:supported|available) in your (?:country|region|location|territory)|user location"
    r"|virtual network|firewall rules|check your network settings"
    r"|\berror code: 10\d\d\b|attention required! \| cloudflare|you have been blocked|<title>just a moment\.\.\."
)
"""Of a 403 that is about where a request comes from, as those of firewalls before the provider."""
_SLIP_CODES = frozenset(("tool_use_failed", "output_parse_failed", "json_validate_failed", "tool_call_parse_error"))
_SLIP_WORDS = (
    *("failed to call a function", "failed to parse tool call", "failed to parse the tool call", "failed_generation"),
    *("tool call validation failed", "could not parse tool call", "malformed function call", "malformed tool call"),
    *("failed to generate json", "model generated invalid", "model produced invalid", "unparsable tool call"),
    *("tokens remaining in message header", "error parsing tool call"),  # vLLM, Ollama
    *("parsing failed. the model generated output", "failed to generate tool", "tool call was generated incorrectly"),
)
SHOULD_RETRY = "x-should-retry"
"""Header by which a provider says whether another attempt helps. It is about the same model: the host's fallback is
asked whatever the header says."""
_TIMEOUT_CODE = "provider_timeout"
"""The mesh's own, with the status 504: the provider has said nothing, and still works on the request."""
_TRANSIENT = frozenset((408, 409, 424, 425, 429, 498, 499))
"""424: the model failed. 498: Groq's, without capacity."""
_FINAL_OUTAGES = frozenset((501, 505))
_OUTAGE_CODES = frozenset((
    *("server_error", "internal_server_error", "server_is_overloaded", "overloaded", "overloaded_error"),
    *("engine_overloaded", "engine_overloaded_error", "unavailable", "service_unavailable", "slow_down"),
))  # fmt: skip
"""Of a 400 that is about the provider's state and not about the request, as some gateways answer."""
_OUTAGE_WORDS = ("overloaded", "temporarily unavailable", "try again later", "server is busy", "engine is currently")
_FINAL_CODES = (
    *("invalid_request", "invalidrequest", "badrequest", "bad_request", "invalidparameter", "invalid_param"),
    *("not_found", "accessdenied", "unsupported_", "invalid_prompt"),
    *(
        "invalid_image",
        "invalid_base64_image",
        "image_too_",
        "image_parse_error",
        "image_file_too_large",
        "empty_image",
    ),
)
_UNKNOWN_CODE = "model_not_found"
_UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}\b(not found|does not exist|not exist|decommissioned|end.of.life|been retired)"
    r"|\bdeployment\b.{0,60}does not exist"
    r"|\b(no|no such|invalid|unknown|not a valid) model\b"
    r"|(?<!/)\bmodels/\S{1,200} is not found|not found the model\b|unable to access model\b|\Amodel: \S+\Z",
    re.IGNORECASE | re.DOTALL,
)
_PLAINLY_UNKNOWN = re.compile(
    r"\bmodel\b\W{0,3}\S{0,120}\W{0,3}(?:is |was |does )?(?:not found|not exist)"
    r"|\b(?:no such|invalid|unknown|not a valid) model\b(?! (?:answer|call|error|output|response|state)\b)",
    re.IGNORECASE,
)
"""Of an error without a status, which may as well be about what the model does."""
_BASE_URL = (
    "if its base URL is wrong: it must end before /chat/completions, often in /v1 (the host's OPENAI_BASE_URL"
    " or base_url, or AGENT_LLM_BASE_URL)"
)
_NOT_OF_THE_URL = re.compile(
    r"no endpoints|no allowed providers|\bitem with id\b|\bnot a chat model\b|\buse case details\b"
)
"""What OpenRouter and the Responses API have not found, or OpenAI and Bedrock do not give."""
_OF_RESPONSES = re.compile(r"\bonly (?:supported|available) in (?:the )?/?v1/responses\b|\buse the responses api\b")
_BY_RESPONSES = "the host's catalog calls such a model with `api: responses`"
_BASE_RESP_CODES = {1002: 429, 1039: 429, 1041: 429, 1004: 401, 1008: 402, 2056: 402, 2049: 401, 2013: 400, 1042: 400}
"""MiniMax's."""


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for an HTTP status and its body."""
    report = read_error_body(body)
    return _error(status, headers, report, f"the model endpoint answered {status}: {report.message}")


def from_event(error: Any) -> ModelError:
    """Return the error for one that a provider reports inside an answer with status 200. A numeric code means what the
    status would."""
    report = read_error(error)
    status = report.status
    if is_object(error) and (code := base_resp_code(error)) is not None:
        status = _BASE_RESP_CODES.get(code)
    return _error(status, {}, report, f"the model's answer is an error: {report.message}")


def _error(status: int | None, headers: Mapping[str, str], report: ErrorReport, text: str) -> ModelError:
    error = _classified(status, headers, report, text)
    error.loading = error.transient and tells_of_loading(report)
    return error


def _classified(status: int | None, headers: Mapping[str, str], report: ErrorReport, text: str) -> ModelError:
    words = report.words
    codes = report.codes
    limited = _is_limited(status, codes, words)
    wait = wait_of(headers, report, limited=limited)
    code = _final_code(status, report, limited=limited)
    if code is not None:
        limit = report.param if code == BUDGET_EXHAUSTED else None
        return ModelError(text, code=code, retry_after=wait if code == "model_quota" else None, limit=limit)
    if limited:
        return ModelError(text, code="model_rate_limited", transient=True, retry_after=wait)
    denied = _access_code(status, codes, words)
    if denied is not None:
        return ModelError(text, code=denied)
    if codes & _SLIP_CODES or _has(words, _SLIP_WORDS):
        return ModelError(text, transient=True)
    if status is None and _PLAINLY_UNKNOWN.search(report.message) and not _has(words, _OUTAGE_WORDS):
        return ModelError(text, code="unknown_model")
    if _may_pass(status, codes, words):
        return ModelError(text, transient=True, retry_after=wait)
    return _request_fault(status, codes, report, text)


def _final_code(status: int | None, report: ErrorReport, *, limited: bool) -> ModelErrorCode | None:
    """Return the code of an error whose words say more than its status; None if they do not."""
    words = report.words
    codes = report.codes
    if "provider_auth" in codes:
        return "model_auth"
    if status == 402 and BUDGET_EXHAUSTED in codes:
        return BUDGET_EXHAUSTED
    if _is_refused(status, codes, words, limited=limited):
        return "content_refused"
    if not limited and _is_overflow(status, report, words):
        return "context_overflow"
    spent = status in (401, 403) and not limited and _SPENT.search(words) is not None
    if status == 402 or spent or _is_quota(codes, words):
        return "model_quota"
    return None


def _access_code(status: int | None, codes: frozenset[str], words: str) -> ModelErrorCode | None:
    """Return the code of an error about what an account may use, or where; None if it is about something else."""
    if status == 403 and _UNKNOWN_CODE in codes:
        return "unknown_model"
    if status == 403 and _WHERE.search(" ".join((words, *codes))):
        return "model_config"
    if status in (401, 403) or codes & _AUTH_CODES or (status in (400, None) and _has(words, _KEY_WORDS)):
        return "model_auth"
    return None


def _may_pass(status: int | None, codes: frozenset[str], words: str) -> bool:
    final = any(known in code for code in codes for known in _FINAL_CODES)
    if status is None:
        return not final or _has(words, _OUTAGE_WORDS)
    if status == 400 and codes & _OUTAGE_CODES and not final and not _PLAINLY_UNKNOWN.search(words):
        return True
    if status in _FINAL_OUTAGES or (status == 504 and _TIMEOUT_CODE in codes):
        return False
    return status >= 500 or status in _TRANSIENT or _has(words, _OUTAGE_WORDS) or _is_awaited(status, words)


def _is_awaited(status: int, words: str) -> bool:
    return status in (400, 404) and plainly_tells_of_loading(words)


def _request_fault(status: int | None, codes: frozenset[str], report: ErrorReport, text: str) -> ModelError:
    if _UNKNOWN_CODE in codes or (status in (None, 400, 404, 410, 422) and _UNKNOWN_MODEL.search(report.message)):
        return ModelError(text, code="unknown_model")
    if _OF_RESPONSES.search(report.words):
        return ModelError(f"{text}; {_BY_RESPONSES}", code="model_config")
    if status in (404, 405) and _NOT_OF_THE_URL.search(report.words) is None:
        return ModelError(f"{text}; {_BASE_URL}", code="model_config")
    if status is None or 400 <= status < 500:
        return ModelError(text, code="model_config")
    return ModelError(text)


def _is_limited(status: int | None, codes: frozenset[str], words: str) -> bool:
    if status == 401:
        return False
    if status == 429 or codes & _RATE_CODES or _THROTTLED in words or any(_THROTTLED in code for code in codes):
        return True
    if status is None and any(_RATE_CODE.search(code) for code in codes):
        return True
    if _TOO_MANY_TOKENS in words and ("wait" in words or is_about_rates(words)):  # Bedrock
        return True
    return status in (403, 413, 449, None) and _has(without_pointers(words), _RATE_WORDS)


def _is_refused(status: int | None, codes: frozenset[str], words: str, *, limited: bool) -> bool:
    if codes & _FLAGGED_CODES:
        return True
    if status is not None and not 400 <= status < 500:
        return False
    coded = bool(codes & _REFUSED_CODES) or any(_SENSITIVE_CODE in code for code in codes)
    if coded or status == _LEGAL_STATUS:
        return True
    return not limited and status not in _OF_THE_ACCOUNT and _has(words, _REFUSED_WORDS)


def _is_quota(codes: frozenset[str], words: str) -> bool:
    return bool(codes & _QUOTA_CODES) or _has(words, _QUOTA_WORDS) or _LASTING_LIMIT.search(words) is not None


def _is_overflow(status: int | None, report: ErrorReport, words: str) -> bool:
    """Return whether the prompt is too long, by code, in words or by both sizes."""
    if report.codes & _TOO_LONG_A_TEXT:
        where = report.param or report.message
        return _OF_A_MESSAGE.search(where) is not None and _NAMED_MEMBER.search(where) is None
    if any(_OVERFLOW_CODE.search(code) for code in report.codes):
        return True
    if is_about_rates(words):
        return False
    if status == 413 or _has(words, _OVERFLOW_WORDS) or _NO_ROOM.search(words) or tells_of_a_long_prompt(words):
        return True
    overflow = overflow_of(words) if _has(words, _PROMPT_WORDS) else None
    return overflow is not None and overflow.limit is not None and overflow.actual is not None


def _has(words: str, wanted: tuple[str, ...]) -> bool:
    return any(word in words for word in wanted)
