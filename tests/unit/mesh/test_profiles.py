"""What is known of models, and what their refusals teach."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import to_json

from agent_common.completions import read_error_body
from agent_common.profiles import lesson_of, profile_of
from agent_common.protocol import Profile

SKIPPED = "skip_thought_signature_validator"
OPENAI, OTHER = "https://api.openai.com/v1", "https://gateway.example.com/v1"


@pytest.mark.parametrize(
    ("url", "model", "known"),
    [
        (OPENAI, "gpt-4.1", {"output_limit": "max_completion_tokens", "call_ids": "short"}),
        (OTHER, "openai/gpt-5-mini", {"output_limit": "max_completion_tokens", "temperature": False}),
        (OTHER, "o3-mini", {"output_limit": "max_completion_tokens"}),
        ("https://x.openai.azure.com/openai/v1", "mine", {"output_limit": "max_completion_tokens"}),
        ("https://api.mistral.ai/v1", "any", {"call_ids": "nine", "user_after_tool": False, "stream_options": False}),
        ("http://10.0.0.7:8000/v1", "mistralai/Devstral-Small", {"call_ids": "nine", "stream_options": None}),
        ("https://api.deepseek.com", "deepseek-v4", {"reasoning_required": True}),
        (OTHER, "moonshotai/kimi-k2", {"reasoning_blank": " "}),
        (OTHER, "google/gemini-3.1-pro-preview", {"signature_blank": SKIPPED, "tool_schemas": "plain"}),
        (OTHER, "gemini-flash-lite-latest", {"signature_blank": SKIPPED}),
        (OTHER, "gemini-2.5-flash", {"signature_blank": None, "tool_schemas": "plain"}),
        ("http://localhost:11434/v1", "qwen3", {"idle_seconds": 600}),
        (OTHER, "large-2", {}),
        ("https://api.openai.com.evil.example/v1", "large-2", {}),
    ],
)
def test_the_table(url: str, model: str, known: dict[str, Any]) -> None:
    found = profile_of(url, model)
    assert {name: getattr(found, name) for name in known} == known
    assert known or found == Profile()


def openai(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


@pytest.mark.parametrize(
    ("body", "lesson"),
    [
        (openai("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
                "max_tokens", "unsupported_parameter"), {"output_limit": "max_completion_tokens"}),
        (openai("Unrecognized request argument supplied: max_completion_tokens"), {"output_limit": "max_tokens"}),
        (openai("Unsupported value: 'temperature' does not support 0.2 with this model.", "temperature"),
         {"temperature": False}),
        ({"object": "error", "message": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "X"}]},
         {"stream_options": False}),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "prompt_cache_key"], "msg": "Extra inputs"}]},
         {"prompt_cache_key": False}),
        (openai("[{'loc': ('body',), 'msg': 'Value error, `tool_choice` must either be a named tool or \"auto\".'}]"),
         {"tool_choice_none": False}),
        (openai("The `reasoning_content` in the thinking mode must be passed back to the API."),
         {"reasoning": "always", "reasoning_required": True}),
        (openai("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"),
         {"reasoning": "always", "reasoning_required": True}),
        (openai("Extra inputs are not permitted: messages.1.reasoning_content", "messages.1.reasoning_content"),
         {"reasoning": "never", "reasoning_required": False}),
        (openai("messages.9.assistant.reasoning_content: property 'messages.9.assistant.reasoning_content' is"
                " unsupported"), {"reasoning": "never", "reasoning_required": False}),
        (openai("Extra inputs are not permitted, field: 'messages[2].reasoning'"), {"reasoning": "never"}),
        (openai("messages.1.reasoning_details: Extra inputs are not permitted"), {"reasoning": "never"}),
        (openai("messages.1.reasoning_details.0.signature: Extra inputs are not permitted"), {"reasoning": "never"}),
        (openai("messages.1.provider_specific_fields: Extra inputs are not permitted"), {"kept_fields": False}),
        (openai("Unknown parameter: 'messages[1].tool_calls[0].extra_content'."), {"kept_fields": False}),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "messages", 2, "marks"], "msg": "Extra inputs"}]},
         {"kept_fields": False}),
        (openai("Unable to submit request because function call `read` in the 2. content block is missing a"
                " `thought_signature`."), {"signature_blank": SKIPPED}),
        (openai("Corrupted thought signature."), {"kept_fields": "turn"}),
        (openai("Unable to submit request because Thought signature is not valid.. Learn more:"
                " https://cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"), {"kept_fields": "turn"}),
        (openai("The `thought_signature` of content 3 is invalid"), {"kept_fields": "turn"}),
        (openai("thoughtSignature could not be verified"), {"kept_fields": "turn"}),
        (openai("Unexpected role 'user' after role 'tool'"), {"user_after_tool": False}),
        (openai("Conversation roles must alternate user/assistant/user/assistant/..."),
         {"user_after_tool": False, "two_users": False}),
        (openai("After the (optional) system message(s), user or tool message(s) should alternate with assistant"
                " message(s)."), {"user_after_tool": False, "two_users": False}),
        (openai("user and assistant roles should be alternating."), {"user_after_tool": False, "two_users": False}),
        (openai("Tool call id was call_0 but must be a-z, A-Z, 0-9, with a length of 9."), {"call_ids": "nine"}),
        ({"error": {"message": "Provider returned error", "code": 400, "metadata": {
            "raw": "Tool call id was call_0 but must be a-z, A-Z, 0-9, with a length of 9.",
        }}}, {"call_ids": "nine"}),
        (openai("Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40.",
                "messages[2].tool_calls[0].id", "string_above_max_length"), {"call_ids": "short"}),
        (openai("messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
         {"call_ids": "short"}),
        (openai("Value 'a.b' at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint:"
                " Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"), {"call_ids": "short"}),
        (openai("Invalid value: 'none'. Supported values are: 'auto' and 'required'.", "tool_choice", "invalid_value"),
         {"tool_choice_none": False}),
        ({"detail": [{"type": "enum", "loc": ["body", "tool_choice"], "msg": "Input should be 'auto' or 'any'"}]},
         {"tool_choice_none": False}),
        (openai("tool_choice only supports auto"), {"tool_choice_none": False}),
        (openai("tool_choice: none is not one of ['auto', 'required']"), {"tool_choice_none": False}),
        (openai("The `tools` parameter must be set when messages contain tool calls"), {"tools_with_calls": True}),
        (openai("tool_call_id must be 9 characters"), {"call_ids": "nine"}),
        (openai("json: unknown field \"reasoning\""), {"reasoning": "never"}),
        (openai("invalid temperature: only 1 is allowed for this model"), {"temperature": False}),
        (openai("`temperature` may only be set to 1 when thinking is enabled."), {"temperature": False}),
        (openai("litellm.UnsupportedParamsError: Bedrock doesn't support tool calling without `tools=` param specified."
                " Pass `tools=` param OR set `litellm.modify_params = True`."), {"tools_with_calls": True}),
        (openai('litellm.BadRequestError: BedrockException - {"message":"The toolConfig field must be defined when'
                ' using toolUse and toolResult content blocks."}'), {"tools_with_calls": True}),
        (openai("Invalid schema for function 'x': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/"
                "'enum'/'not' at the top level.", "tools[5].function.parameters", "invalid_function_parameters"),
         {"tool_schemas": "object"}),
        (openai("Invalid JSON payload received. Unknown name \"additionalProperties\" at "
                "'tools[0].function_declarations[34].parameters': Cannot find field."), {"tool_schemas": "plain"}),
        (openai("body.prompt_cache_key: property 'body.prompt_cache_key' is unsupported", "validation_error"),
         {"prompt_cache_key": False}),
        (openai("body.stream_options: Extra inputs are not permitted"), {"stream_options": False}),
        (openai("'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property"
                " 'channel' is unsupported)]"), {"kept_fields": False}),
        (openai("Additional properties are not allowed ('annotations' was unexpected) - 'messages.1'"),
         {"kept_fields": False}),
        (openai("Invalid JSON payload received. Unknown name \"annotations\" at 'messages[1]': Cannot find field."),
         {"kept_fields": False}),
        (openai("json: unknown field \"provider_specific_fields\""), {"kept_fields": False}),
        (openai("Failed to parse the request: unknown field `extra_content`, expected one of `role`, `content`"),
         {"kept_fields": False}),
        (openai("Function tools with reasoning_effort are not supported for gpt-5.6-luna in /v1/chat/completions. To"
                " use function tools, use /v1/responses or set reasoning_effort to 'none'.", "reasoning_effort"),
         {"effort_with_tools": "none"}),
        (openai("1 validation error detected: Value at 'messages.2.member.content.1.member.toolUse.toolUseId' failed to"
                " satisfy constraint: Member must have length less than or equal to 64"), {"call_ids": "short"}),
        (openai("Unsupported parameter: 'tool_choice' is not supported with this model.", "tool_choice",
                "unsupported_parameter"), {"tool_choice": False}),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "tool_choice"], "msg": "Extra inputs"}]},
         {"tool_choice": False}),
        (openai('"none" tool choice is not supported'), {"tool_choice_none": False}),
        (openai("Tool choice 'none' is not supported"), {"tool_choice_none": False}),
        (openai("tool_choice must be one of auto, required"), {"tool_choice_none": False}),
        (openai("Unsupported tool choice: none"), {"tool_choice_none": False}),
        *((openai(words), {"system_role": False}) for words in (
            "System role not supported",
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            "Only user and assistant roles are supported!",
            "This model does not support system messages",
            "Developer instruction is not enabled for models/gemma-3-27b-it",
        )),
        *((openai(words), {"several_calls": False}) for words in (
            "This model only supports single tool-calls at once!",
            "The model supports only one tool call at a time",
            "Multiple tool calls in one message are not supported",
        )),
        *((openai(f"Invalid 'tools{place}.description': string too long. Expected a string with maximum length 1024,"
                  " but got a string with length 2000 instead."), {"description_limit": 1024})
          for place in ("[0].function", "[12]", ".3.function")),
        (openai("Invalid value for tool_choice: none"), {"tool_choice_none": False}),
        (openai("temperature must be 1 for this model"), {"temperature": False}),
        (openai("Temperature is fixed at 1 for this model"), {"temperature": False}),
        (openai("This model only supports the default temperature of 1"), {"temperature": False}),
        (openai("tools: Field required when messages contain tool calls"), {"tools_with_calls": True}),
        (openai("No tools provided but tool_calls found in messages"), {"tools_with_calls": True}),
        (openai("Requests which include `tool_use` or `tool_result` blocks must define `tools`."),
         {"tools_with_calls": True}),
        (openai("Requests which include `tool_use` or `tool_result` blocks must define tools."),
         {"tools_with_calls": True}),
        (openai("Messages with tool results must declare the 'tools' that were called"), {"tools_with_calls": True}),
        (openai("deepseek-reasoner does not support successive user or assistant messages (messages[1], ...)."),
         {"two_users": False, "user_after_tool": False}),
        (openai("Consecutive messages from the same role are not allowed: user"),
         {"two_users": False, "user_after_tool": False}),
        (openai("Tool messages must be followed by an assistant message"), {"user_after_tool": False}),
        (openai("Expected assistant message after tool message, got user"), {"user_after_tool": False}),
        (openai("user message after tool message is not allowed"), {"user_after_tool": False}),
        ({"detail": [{"type": "string_type", "loc": ["body", "messages", 2, "assistant", "content", "str"],
                      "msg": "Input should be a valid string"}]}, {"null_content": False}),
        (openai("messages[2].content: field required"), {"null_content": False}),
        (openai("missing field `content` at line 1 column 300"), {"null_content": False}),
        (openai("Invalid tool_call_id: only alphanumeric characters, underscores and hyphens are allowed"),
         {"call_ids": "short"}),
        (openai("Invalid schema for function 'x': must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'."),
         {"tool_schemas": "object"}),
        (openai("Invalid schema for function 'x': In context=('properties', 'y'), 'pattern' is not permitted."),
         {"tool_schemas": "plain"}),
        (openai("* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[x].enum: only"
                " allowed for STRING type"), {"tool_schemas": "plain"}),
        (openai("* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty"
                " for OBJECT type"), {"tool_schemas": "filled"}),
        (openai("* GenerateContentRequest.tools[2].function_declarations[3].parameters.properties[x].properties: should"
                " be non-empty for OBJECT type"), {"tool_schemas": "filled"}),
        (openai("Schema with type OBJECT must have non-empty properties"), {"tool_schemas": "filled"}),
        (openai("tools.function.parameters is not a valid moonshot flavored json schema, details: <At path"
                " 'properties.x': type should be defined in anyOf items>"), {"tool_schemas": "plain"}),
        (openai("invalid JSON schema for tool x, tools[0].function.parameters: `/properties/y`: `$ref` not supported"),
         {"tool_schemas": "plain"}),
        (openai("tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"),
         {"tool_schemas": "plain"}),
        (openai("tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"),
         {"argument_names": "plain"}),
        (openai("litellm.BadRequestError: BedrockException - {\"message\":\"tools.3.input_schema.properties: Property"
                " keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'\"}"), {"argument_names": "plain"}),
        (openai("Invalid schema for function 'x': property name '$filter' must match '^[a-zA-Z0-9_.-]+$'"),
         {"argument_names": "plain"}),
        (openai("* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: Invalid property"
                " name: $filter"), {"argument_names": "plain"}),
    ],
)  # fmt: skip
def test_a_refusal_that_names_what_is_refused_teaches(body: dict[str, Any], lesson: dict[str, Any]) -> None:
    report = read_error_body(to_json(body))
    found = lesson_of(400, report, Profile())
    assert found is not None
    assert found.stated() == lesson
    assert lesson_of(400, report, Profile(**lesson)) is None, "what is known already is not learned again"
    assert lesson_of(429, report, Profile()) is None


@pytest.mark.parametrize(
    "wording",
    [
        "Invalid parameter: {}",
        "Invalid field: {}",
        "{} is not a valid parameter",
        "{} is disabled for this model",
        "{} is not available for this model",
        "{} is incompatible with this model",
        "The field {} is not recognized",
        "{} was not expected",
        "{} is not implemented",
        "{} is not yet supported",
        "{} isn't supported",
        "{} must not be set for this model",
        "no such field: {}",
        "reasoning models do not support {}",
        "\u4e0d\u652f\u6301\u53c2\u6570 {}",
    ],
)
@pytest.mark.parametrize(
    ("name", "lesson"),
    [
        ("stream_options", Profile(stream_options=False)),
        ("max_tokens", Profile(output_limit="none")),
        ("max_completion_tokens", Profile(output_limit="max_tokens")),
        ("temperature", Profile(temperature=False)),
        ("tool_choice", Profile(tool_choice=False)),
        ("prompt_cache_key", Profile(prompt_cache_key=False)),
    ],
)
def test_a_parameter_may_be_refused_in_any_words(wording: str, name: str, lesson: Profile) -> None:
    assert lesson_of(400, read_error_body(to_json(openai(wording.format(name)))), Profile()) == lesson


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be"
        " modified. These blocks must remain as they were in the original response.",
        "The encrypted content for item rs_1 could not be verified.",
        "The encrypted content gAAA... could not be verified. Reason: Encrypted content could not be decrypted.",
    ],
)
def test_signed_reasoning_that_is_refused_stays_out_of_later_turns_then_of_all(message: str) -> None:
    report = read_error_body(to_json(openai(message)))
    assert lesson_of(400, report, Profile()) == Profile(reasoning="turn")
    assert lesson_of(400, report, Profile(reasoning="turn")) == Profile(reasoning="never")
    assert lesson_of(400, report, Profile(reasoning="never")) is None


@pytest.mark.parametrize(
    "message",
    [
        "No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit:"
        " https://openrouter.ai/docs/provider-routing",
        "The provided tool_choice value is not supported by this model",
        "Unsupported tool_choice value",
        "Invalid value for 'tool_choice'",
        "This value of `tool_choice` is not available",
    ],
)
def test_a_choice_of_tools_that_is_refused_becomes_auto_then_none_is_named(message: str) -> None:
    report = read_error_body(to_json(openai(message)))
    for status in (400, 404, 422):
        assert lesson_of(status, report, Profile()) == Profile(tool_choice_none=False)
        assert lesson_of(status, report, Profile(tool_choice_none=False)) == Profile(tool_choice=False)
        assert lesson_of(status, report, Profile(tool_choice_none=False, tool_choice=False)) is None


def test_schemas_of_tools_become_stricter_only() -> None:
    rules = {
        "object": "Invalid schema for function 'x': schema must have type 'object'",
        "plain": "Invalid JSON payload received. Unknown name \"x\" at 'tools[0].function_declarations[0].parameters'",
        "filled": "function_declarations[0].parameters.properties: should be non-empty for OBJECT type",
    }
    strictness = ["any", *rules]
    for rule, message in rules.items():
        report = read_error_body(to_json(openai(message)))
        for sent in strictness:
            stricter = strictness.index(rule) > strictness.index(sent)
            lesson = lesson_of(400, report, Profile.model_validate({"tool_schemas": sent}))
            assert lesson == (Profile.model_validate({"tool_schemas": rule}) if stricter else None)


def test_a_signature_that_is_refused_brings_none_back_where_none_is_taken() -> None:
    report = read_error_body(to_json(openai("Invalid thought_signature")))
    assert lesson_of(400, report, Profile(kept_fields=True)) == Profile(kept_fields="turn")
    assert lesson_of(400, report, Profile(kept_fields=False)) is None


@pytest.mark.parametrize(
    ("message", "lesson"),
    [
        ("Conversation roles must alternate user/assistant/user/assistant/...",
         Profile(two_users=False, user_after_tool=False)),
        ("Unexpected role 'user' after role 'tool'", Profile(user_after_tool=False)),
        ("System role not supported", Profile(system_role=False)),
        ("This model only supports single tool-calls at once!", Profile(several_calls=False)),
        ("toolConfig is broken", None),
        ("Unsupported parameter: 'max_tokens'", None),
    ],
)  # fmt: skip
def test_of_a_fault_of_the_server_only_the_order_of_roles_is_learned(message: str, lesson: Profile | None) -> None:
    assert lesson_of(500, read_error_body(to_json(openai(message))), Profile()) == lesson


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens, and max_tokens is 4096.",
        "tools[1].function.description: string too long",
        "max_tokens must be at least 1",
        "Invalid parameter: max_tokens must be between 1 and 8192",
        "Invalid parameter: max_tokens is too large",
        "temperature must be 0 or more",
        "temperature should be 0-2",
        "Invalid 'tools[0].function.parameters.properties.x.description': string too long.",
        "Invalid 'tools[0].function.parameters.properties.x.description': string too long. Expected a string with"
        " maximum length 1024, but got a string with length 2000 instead.",
        "The system is not supported any more",
        "At most one tool call may run",
        "max_tokens cannot be greater than 8192",
        "max_tokens can't be more than 8192",
        "temperature cannot be larger than 1",
        "temperature: only values between 0 and 1 make sense",
        "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
        "Incorrect API key provided",
        "The model `x` does not exist",
        "Invalid value for messages.1.provider_specific_fields",
        "Unknown parameter: 'messages[1].name'.",
        "messages.2.content.0.image_url: images are not supported",
        "property 'messages.1.name' is unsupported",
        'json: unknown field "role"',
        "Additional properties are not allowed ('marks' was unexpected) - 'tools.0.function'",
        "Unsupported parameter: 'reasoning'",
        "Unknown parameter: 'reasoning.effort'.",
        "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use"
        " /v1/responses instead.",
        "Invalid tool_choice: supports one function only",
        "messages.1.content.0: `redacted_thinking` blocks can only be in `assistant` messages",
    ],
)
def test_other_refusals_teach_nothing(message: str) -> None:
    assert lesson_of(400, read_error_body(to_json(openai(message))), Profile()) is None
