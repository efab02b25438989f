"""Rules of the conversation: who speaks first, results directly after calls, text that says something, and thinking
that comes back as it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .errors import Refusal
from .models import ModelRules
from .schema import Block, CountedRequest, Message, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from .signatures import is_sealed, is_signed

_MISSING_THINKING = (
    "{where}.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` is enabled, a "
    "final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and "
    "`tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, "
    "disable `thinking`."
)
_CHANGED_THINKING = (
    "{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These "
    "blocks must remain as they were in the original response."
)


def merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with those of the same role that follow each other as one, as the model sees them."""
    result: list[Message] = []
    for message in messages:
        if result and result[-1].role == message.role:
            blocks = [*result.pop().blocks, *message.blocks]
            result.append(Message.model_construct(role=message.role, content=blocks))
        else:
            result.append(message)
    return result


def check_messages(request: CountedRequest, model: ModelRules, given: Mapping[str, Sequence[Block]]) -> None:
    """Raise Refusal for the first broken rule. `given` has the thinking that came before each call, by its id."""
    messages = merged(request.messages)
    if messages[0].role != "user":
        raise Refusal('messages: first message must use the "user" role')
    for at, message in enumerate(messages):
        _check_content(messages, at, message)
    _check_calls(messages)
    _check_end(messages[-1], model)
    _check_thinking(request, messages, given)


def _check_content(messages: Sequence[Message], at: int, message: Message) -> None:
    if not message.content and at < len(messages) - 1:
        raise Refusal(
            f"messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        )
    for number, block in enumerate(message.blocks):
        where = f"messages.{at}.content.{number}"
        if isinstance(block, Text) and not block.text:
            raise Refusal("messages: text content blocks must be non-empty")
        if isinstance(block, Text) and not block.text.strip():
            raise Refusal("messages: text content blocks must contain non-whitespace text")
        if isinstance(block, Thinking) and not is_signed(block.thinking, block.signature):
            raise Refusal(f"{where}: Invalid `signature` in `thinking` block")
        if isinstance(block, RedactedThinking) and not is_sealed(block.data):
            raise Refusal(f"{where}: Invalid `data` in `redacted_thinking` block")
        expected = "user" if isinstance(block, ToolResult) else "assistant"
        if isinstance(block, Thinking | RedactedThinking | ToolUse | ToolResult) and message.role != expected:
            raise Refusal(f"{where}: `{block.type}` blocks can only be in `{expected}` messages")
        if message.role == "assistant" and block.type == "document":
            raise Refusal(f"{where}: `document` blocks are not permitted in `assistant` messages")
    if message.blocks and isinstance(message.blocks[-1], Thinking | RedactedThinking):
        raise Refusal(f"messages.{at}: The final block in an assistant message cannot be `thinking`.")


def _check_calls(messages: Sequence[Message]) -> None:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        calls = [block.id for block in message.blocks if isinstance(block, ToolUse)]
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolUse) and block.id in seen:
                raise Refusal(f"messages.{at}.content.{number}: `tool_use` ids must be unique")
            seen.update([block.id] if isinstance(block, ToolUse) else ())
        follower = messages[at + 1].blocks if at + 1 < len(messages) else []
        _check_results(at + 1, calls, follower)
        if calls and (missing := [call for call in calls if call not in _leading_results(follower)]):
            raise Refusal(
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
    _check_results(0, [], messages[0].blocks)


def _check_results(at: int, calls: Sequence[str], blocks: Sequence[Block]) -> None:
    answered: set[str] = set()
    for number, block in enumerate(blocks):
        if not isinstance(block, ToolResult):
            continue
        if block.tool_use_id not in calls:
            raise Refusal(
                f"messages.{at}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block.tool_use_id}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
        if block.tool_use_id in answered:
            raise Refusal(
                f"messages.{at}.content.{number}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {block.tool_use_id}"
            )
        answered.add(block.tool_use_id)


def _leading_results(blocks: Sequence[Block]) -> set[str]:
    """Return the ids of the results at the beginning: behind a text they do not count."""
    found: set[str] = set()
    for block in blocks:
        if not isinstance(block, ToolResult):
            break
        found.add(block.tool_use_id)
    return found


def _check_end(last: Message, model: ModelRules) -> None:
    if last.role != "assistant":
        return
    if not model.prefill:
        raise Refusal(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    block = last.blocks[-1] if last.blocks else None
    if isinstance(block, Text) and block.text != block.text.rstrip():
        raise Refusal("messages: final assistant content cannot end with trailing whitespace")


def _check_thinking(request: CountedRequest, messages: Sequence[Message], given: Mapping[str, Sequence[Block]]) -> None:
    """Check the messages of the turn that is not over: its calls must have the thinking that they came with.

    Stricter than the API where thinking is adaptive: there a call may lack its thinking, here never.
    """
    if request.thinking is not None and request.thinking.type == "disabled":
        return
    start = max((at for at, message in enumerate(messages) if _is_asked(message)), default=0)
    for at in range(start + 1, len(messages)):
        message = messages[at]
        where = f"messages.{at}.content"
        calls = [block.id for block in message.blocks if isinstance(block, ToolUse)]
        thinking = [block for block in message.blocks if isinstance(block, Thinking | RedactedThinking)]
        expected = [block for call in calls for block in given.get(call, ())]
        must_start = request.thinking is not None and request.thinking.type == "enabled" and calls
        if not thinking and (expected or must_start):
            raise Refusal(_MISSING_THINKING.format(where=f"{where}.0", found=message.blocks[0].type))
        if expected and thinking != _unique(expected):
            raise Refusal(_CHANGED_THINKING.format(where=f"{where}.0"))


def _is_asked(message: Message) -> bool:
    """Whether a person speaks, so that a turn begins."""
    return message.role == "user" and not any(isinstance(block, ToolResult) for block in message.blocks)


def _unique(blocks: Sequence[Block]) -> list[Block]:
    return [block for at, block in enumerate(blocks) if block not in blocks[:at]]
