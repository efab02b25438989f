"""Choose the model at the first `agent up`: by options, the environment, or by asking."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import ABORTED, CliError, UsageError
from ..output import Output
from .check_model import ModelFault, check_model
from .model_choice import (
    VARIABLES,
    ModelChoice,
    Provider,
    choices_of_environment,
    default_choice,
    key_of_environment,
)

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_QUESTION = """\
Which model is to answer?
  1  the demo model: a script that calls real tools; needs no key and no network
  2  OpenAI, or any endpoint that speaks its HTTP; needs its key
  3  Claude, by Anthropic's own API; needs its key"""
_ANSWERS: Mapping[str, Provider] = {"1": "demo", "2": "openai-compatible", "3": "anthropic"}


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What the options of `agent up` say."""

    provider: Provider | None = None
    base_url: str | None = None
    model: str | None = None
    ask: bool = True
    """Whether a person is there to answer."""
    assume: bool = False
    """Whether the answer to every question is the first one."""

    @property
    def named(self) -> bool:
        """Whether they name a model."""
        return any((self.provider, self.base_url, self.model))


async def choose_model(options: ModelOptions, saved: ModelChoice | None, output: Output) -> ModelChoice:
    """Return a choice that was checked. Of the one that was saved for the same provider address and model stay, unless
    others are named. Raises CliError that says why not, UsageError if no person can be asked."""
    found = choices_of_environment(saved)
    if options.provider == "demo" and (options.base_url or options.model):
        raise UsageError("--base-url and --model are not for the demo model", "leave them out")
    if options.named or options.assume or not options.ask:
        return await _checked(await _by_options(options, found, saved), output)
    return await _by_asking(found[0] if found else None, output)


async def _by_options(options: ModelOptions, found: Sequence[ModelChoice], saved: ModelChoice | None) -> ModelChoice:
    if not options.named:
        if not options.assume:
            raise UsageError(
                "no model is chosen yet, and no person is here to ask", "add --yes for the demo model, or --provider"
            )
        return found[0] if found else ModelChoice("demo")
    if options.provider == "demo":
        return ModelChoice("demo")
    provider = options.provider or _provider_of(options, found, saved)
    known = (one for one in (*found, saved) if one is not None and one.provider == provider)
    base = next(known, default_choice(provider))
    url = (options.base_url or base.base_url).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--base-url: {url!r} must begin with http:// or https://")
    choice = replace(base, base_url=url, model=options.model or base.model, key=key_of_environment(provider))
    if choice.key is None and options.ask and not options.assume:
        choice = replace(choice, key=await _ask_key())
    with_key = [default_choice(provider).base_url, *([saved.base_url] if saved is not None and saved.key else [])]
    if choice.key is None and url in with_key:
        name = f"{VARIABLES[provider]}_API_KEY"
        raise UsageError(f"{url} needs a key", f"set {name}, or {name}_FILE to a file with it")
    return choice


def _provider_of(options: ModelOptions, found: Sequence[ModelChoice], saved: ModelChoice | None) -> Provider:
    """Return the provider where none is named: of a model alone the one before, unless only another has a key here."""
    if options.base_url:
        return "openai-compatible"
    here: list[Provider] = [one.provider for one in found]
    if saved is not None and saved.provider != "demo" and (saved.provider in here or not here):
        return saved.provider
    return here[0] if here else "openai-compatible"


async def _checked(choice: ModelChoice, output: Output) -> ModelChoice:
    fault = await check_model(choice)
    if fault is not None and fault.certain:
        raise CliError(fault.text, "nothing was saved; correct it and run `agent up` again")
    if fault is not None:
        output.note(f"warning: {fault.text}")
    return choice


# ---------------------------------------------------------------- with a person


async def _by_asking(found: ModelChoice | None, output: Output) -> ModelChoice:
    """Ask until there is a choice that works, or the person gives up."""
    for line in _QUESTION.splitlines():
        output.note(line)
    offered = next((answer for answer, one in _ANSWERS.items() if found is not None and one == found.provider), "1")
    provider = _ANSWERS[await _ask("Choice", offered, one_of=tuple(_ANSWERS))]
    if provider == "demo":
        return ModelChoice("demo")
    choice = found if found is not None and found.provider == provider else default_choice(provider)
    while True:
        url = (await _ask("Base URL", choice.base_url)).rstrip("/")
        key = choice.key if choice.key and url == choice.base_url and await _keeps_key(provider) else await _ask_key()
        choice = ModelChoice(provider, url, await _ask("Model", choice.model), key)
        output.note("Trying it ...")
        fault = await check_model(choice)
        if await _accepted(fault, output):
            return choice
        choice = replace(choice, model=(fault and fault.listed) or choice.model)


async def _accepted(fault: ModelFault | None, output: Output) -> bool:
    if fault is None:
        return True
    output.note(fault.text)
    return not fault.certain and await _ask("Use it all the same? y or n", "n", one_of=("y", "n")) == "y"


async def _keeps_key(provider: Provider) -> bool:
    name = f"{VARIABLES[provider]}_API_KEY"
    source = f"the key of {name}" if os.environ.get(name) else "the same key"
    return await _ask(f"Use {source}? y or n", "y", one_of=("y", "n")) == "y"


async def _ask(question: str, default: str, one_of: tuple[str, ...] = ()) -> str:
    while True:
        answer = await _prompt(f"{question} [{default}]: ") or default
        if not one_of or answer in one_of:
            return answer


async def _ask_key() -> str | None:
    return await _prompt("Key, which is not shown (none: Enter): ", hidden=True) or None


async def _prompt(text: str, *, hidden: bool = False) -> str:
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    try:
        return (await session.prompt_async(text, is_password=hidden)).strip()
    except (EOFError, KeyboardInterrupt):
        raise CliError("nothing was chosen, and nothing was started", code=ABORTED) from None
