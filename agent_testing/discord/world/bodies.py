"""What bots send, with the limits that Discord checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from .entities import JSON
from .errors import invalid_body, invalid_fields, invalid_form

COMPONENTS_V2 = 1 << 15
T = TypeVar("T", bound=BaseModel)


def _between(least: int, most: int) -> AfterValidator:
    """Bounds that Discord reports together."""

    def check(value: Any) -> Any:
        if not least <= len(value) <= most:
            raise ValueError(f"BASE_TYPE_BAD_LENGTH: Must be between {least} and {most} in length.")
        return value

    return AfterValidator(check)


def _check_nonce(nonce: str | int) -> str | int:
    if len(str(nonce)) > 25:
        raise ValueError("BASE_TYPE_MAX_LENGTH: Must be 25 or fewer in length.")
    return nonce


_Length80 = Annotated[str, Field(max_length=80)]
_Length100 = Annotated[str, _between(1, 100)]


class Body(BaseModel):
    """Fields that Discord does not know are ignored, as there."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Option(Body):
    label: _Length100
    value: _Length100
    description: Annotated[str, Field(max_length=100)] | None = None
    emoji: JSON | None = None
    default: bool | None = None


class Component(Body):
    """A button (2) or a select menu (3, 5-8)."""

    type: Literal[2, 3, 5, 6, 7, 8]
    style: Annotated[int, Field(ge=1, le=5)] | None = None
    label: _Length80 | None = None
    custom_id: _Length100 | None = None
    url: Annotated[str, Field(max_length=512)] | None = None
    emoji: JSON | None = None
    disabled: bool | None = None
    placeholder: Annotated[str, Field(max_length=150)] | None = None
    options: Annotated[list[Option], _between(1, 25)] | None = None
    min_values: Annotated[int, Field(ge=0, le=25)] | None = None
    max_values: Annotated[int, Field(ge=1, le=25)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        is_link = self.type == 2 and self.style == 5
        if self.type == 2 and self.style is None:
            raise ValueError("BASE_TYPE_REQUIRED: a button needs a style")
        if self.type == 2 and not self.label and not self.emoji:
            raise ValueError("BUTTON_COMPONENT_LABEL_OR_EMOJI_REQUIRED: A button must have a label or an emoji")
        if is_link != (self.url is not None):
            raise ValueError("BUTTON_COMPONENT_URL: A link button, and no other, has a url")
        if is_link == (self.custom_id is not None):
            raise ValueError("BUTTON_COMPONENT_CUSTOM_ID_REQUIRED: A component has a custom id unless it is a link")
        if self.type == 3 and not self.options:
            raise ValueError("BASE_TYPE_REQUIRED: a string select needs options")
        return self


class Row(Body):
    type: Literal[1]
    components: Annotated[list[Component], _between(1, 5)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.components) > 1 and any(each.type != 2 for each in self.components):
            raise ValueError("COMPONENT_LAYOUT_WIDTH_EXCEEDED: The specified component exceeds the maximum width")
        return self


class Embed(Body):
    model_config = ConfigDict(frozen=True, extra="allow")
    title: Annotated[str, Field(max_length=256)] | None = None
    description: Annotated[str, Field(max_length=4096)] | None = None
    fields: Annotated[list[JSON], Field(max_length=25)] | None = None


class AllowedMentions(Body):
    parse: list[Literal["roles", "users", "everyone"]] = []
    users: Annotated[list[int], Field(max_length=100)] = []
    roles: Annotated[list[int], Field(max_length=100)] = []
    replied_user: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if ("users" in self.parse and self.users) or ("roles" in self.parse and self.roles):
            raise ValueError("MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE: parse and the list of ids exclude each other")
        return self


class MessageReference(Body):
    message_id: int
    channel_id: int | None = None
    fail_if_not_exists: bool = True


class AttachmentReference(Body):
    id: int
    filename: str | None = None
    description: Annotated[str, Field(max_length=1024)] | None = None


class MessageBody(Body):
    """A new message, or the changes to one: then only what is present counts."""

    content: Annotated[str, Field(max_length=2000)] | None = None
    nonce: Annotated[str | int, AfterValidator(_check_nonce)] | None = None
    enforce_nonce: bool = False
    embeds: Annotated[list[Embed], Field(max_length=10)] | None = None
    components: Annotated[list[Row], Field(max_length=5)] | None = None
    allowed_mentions: AllowedMentions | None = None
    message_reference: MessageReference | None = None
    attachments: Annotated[list[AttachmentReference], Field(max_length=10)] | None = None
    flags: int | None = None

    @property
    def text(self) -> str:
        """The content as Discord keeps it: without white space around it."""
        return (self.content or "").strip()

    @property
    def rows(self) -> list[JSON]:
        return [row.model_dump(exclude_none=True) for row in self.components or ()]

    @property
    def embed_objects(self) -> list[JSON]:
        return [embed.model_dump(exclude_none=True) for embed in self.embeds or ()]


class CallbackBody(Body):
    """The first answer to an interaction."""

    type: Literal[1, 4, 5, 6, 7, 8, 9]
    data: Any = None


class ThreadBody(Body):
    name: _Length100
    type: Literal[10, 11, 12] | None = None
    auto_archive_duration: Literal[60, 1440, 4320, 10080] | None = None


class ChannelChanges(Body):
    name: _Length100 | None = None
    archived: bool | None = None
    locked: bool | None = None


class RecipientBody(Body):
    recipient_id: int


class CommandOption(Body):
    type: Annotated[int, Field(ge=1, le=11)]
    name: Annotated[str, Field(pattern=r"^[-_'\w]{1,32}$")]
    description: _Length100
    required: bool = False
    choices: Annotated[list[JSON], Field(max_length=25)] | None = None
    options: Annotated[list[CommandOption], Field(max_length=25)] | None = None


class CommandBody(Body):
    """An application command; the description of a slash command (type 1) is required."""

    model_config = ConfigDict(frozen=True, extra="allow")
    name: Annotated[str, Field(pattern=r"^[-_'\w ]{1,32}$")]
    type: Literal[1, 2, 3] = 1
    description: Annotated[str, Field(max_length=100)] = ""
    options: Annotated[list[CommandOption], Field(max_length=25)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.type == 1 and not self.description:
            raise ValueError("BASE_TYPE_REQUIRED: This field is required")
        if self.type == 1 and (self.name != self.name.lower() or " " in self.name):
            raise ValueError("APPLICATION_COMMAND_INVALID_NAME: Command name is invalid")
        required = [each.required for each in self.options or ()]
        if required != sorted(required, reverse=True):
            raise ValueError("APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID: Required options come first")
        return self


_COMMANDS = TypeAdapter(Annotated[list[CommandBody], Field(max_length=100)])


def parse(model: type[T], body: object) -> T:
    """Raises Refused with the tree of errors."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_body(error) from None


def parse_message(body: object) -> MessageBody:
    """Check a message as Discord does, its components too. Raises Refused."""
    message = parse(MessageBody, body)
    if (message.flags or 0) & COMPONENTS_V2:
        raise invalid_form(["flags"], "UNSUPPORTED", "This double has no components V2; use rows of buttons")
    _refuse_repeated_ids(message.rows)
    size = sum(len(str(embed.get(name, ""))) for embed in message.embed_objects for name in ("title", "description"))
    if size > 6000:
        raise invalid_form(["embeds"], "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of 6000")
    return message


def _refuse_repeated_ids(rows: Sequence[JSON]) -> None:
    seen = set[str]()
    repeated = list[tuple[Sequence[str | int], str, str]]()
    for row_number, row in enumerate(rows):
        for number, part in enumerate(row["components"]):
            name = part.get("custom_id")
            if name in seen:
                path = ("components", row_number, "components", number, "custom_id")
                text = "Component custom id cannot be duplicated"
                repeated.append((path, "COMPONENT_CUSTOM_ID_DUPLICATED", text))
            elif name is not None:
                seen.add(name)
    if repeated:
        raise invalid_fields(repeated)


def parse_commands(body: object) -> list[JSON]:
    """Check the whole list of commands of an application. Raises Refused."""
    try:
        commands = _COMMANDS.validate_python(body)
    except ValidationError as error:
        raise invalid_body(error) from None
    names = [(command.type, command.name) for command in commands]
    for number, name in enumerate(names):
        if name in names[:number]:
            text = "Application command names must be unique"
            raise invalid_form([number], "APPLICATION_COMMANDS_DUPLICATE_NAME", text)
    return [command.model_dump(exclude_none=True) for command in commands]
