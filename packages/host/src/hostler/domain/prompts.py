"""Prompts of agents: messages that people pick instead of writing them, with places for arguments. Pure.

A place is `{name}`, with the name of an argument of the prompt. Every other brace is text. A value is put in
as it is, and is not looked at for places again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

MAX_PROMPTS = 32
"""Prompts of one agent: people pick them from a list."""
MAX_ARGUMENTS = 16
MAX_NAME_CHARS = 64
MAX_TITLE_CHARS = 100
MAX_DESCRIPTION_CHARS = 500
MAX_TEXT_CHARS = 8_000
MAX_FILLED_CHARS = 100_000
"""A text with its values, which may stand in many places of it."""
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}")
_ARGUMENT = re.compile(rf"[^\W\d][\w-]{{0,{MAX_NAME_CHARS - 1}}}")
_BRACED = re.compile(r"\{([^{}]*)\}")

Title = Annotated[str, msgspec.Meta(max_length=MAX_TITLE_CHARS)]
Description = Annotated[str, msgspec.Meta(max_length=MAX_DESCRIPTION_CHARS)]


class PromptArgument(Strict):
    """What a person is asked for. One that is not required, and not given, leaves its places empty."""

    name: str
    description: Description | None = None
    required: bool = False


class Prompt(Strict):
    """A message that people pick by its title, or by its name where it has none.

    `text`: the message, with `{name}` where the argument of that name goes.
    """

    name: str
    text: Annotated[str, msgspec.Meta(max_length=MAX_TEXT_CHARS)]
    title: Title | None = None
    description: Description | None = None
    arguments: Annotated[list[PromptArgument], msgspec.Meta(max_length=MAX_ARGUMENTS)] = []


Prompts = Annotated[list[Prompt], msgspec.Meta(max_length=MAX_PROMPTS)]


def prompt_mistakes(prompts: Sequence[Prompt]) -> Iterator[Mistake]:
    """Yield the mistakes in an agent's prompts, each with its place."""
    named = Counter(prompt.name for prompt in prompts)
    for number, prompt in enumerate(prompts):
        place = f"prompts[{number}]"
        if not _NAME.fullmatch(prompt.name):
            text = f"a name has 1 to {MAX_NAME_CHARS} letters from a to z, digits, _ and -"
            yield Mistake(f"{place}.name", text)
        elif named[prompt.name] > 1:
            yield Mistake(f"{place}.name", f"{prompt.name!r} is the name of {named[prompt.name]} prompts")
        yield from (one.within(place) for one in _argument_mistakes(prompt))
        yield from (one.within(place) for one in _text_mistakes(prompt))


def _argument_mistakes(prompt: Prompt) -> Iterator[Mistake]:
    named = Counter(argument.name for argument in prompt.arguments)
    places = _places(prompt.text)
    for number, argument in enumerate(prompt.arguments):
        name, place = argument.name, f"arguments[{number}].name"
        if not _ARGUMENT.fullmatch(name):
            text = f"a name has 1 to {MAX_NAME_CHARS} letters, digits, _ and -, and begins with a letter or _"
            yield Mistake(place, text)
        elif named[name] > 1:
            yield Mistake(place, f"{name!r} is the name of {named[name]} arguments")
        elif name not in places:
            yield Mistake(place, f"the text has no {{{name}}}: put it in, or remove the argument")


def _text_mistakes(prompt: Prompt) -> Iterator[Mistake]:
    if not prompt.text.strip():
        yield Mistake("text", "it is empty; expected the message that the prompt is")
    named = {argument.name for argument in prompt.arguments}
    for name in dict.fromkeys(_places(prompt.text)):
        if name not in named:
            yield Mistake("text", f"{{{name}}} is no argument: add one of this name, or take the braces away")


def _places(text: str) -> list[str]:
    """Return the names that stand in places of a text."""
    return [name for name in _BRACED.findall(text) if _ARGUMENT.fullmatch(name)]


def filled(prompt: Prompt, values: Mapping[str, str]) -> str:
    """Return the text with its values. InvalidArgumentError for an argument that is missing or unknown, and
    for a text that becomes too long.
    """
    named = {argument.name for argument in prompt.arguments}
    if unknown := sorted(values.keys() - named):
        expected = f"expected {', '.join(sorted(named))}" if named else "it takes none"
        raise InvalidArgumentError(f"arguments: the prompt has no argument {unknown[0]!r:.100}: {expected}")
    missing = [one.name for one in prompt.arguments if one.required and not values.get(one.name)]
    if missing:
        raise InvalidArgumentError(f"arguments: the prompt needs {', '.join(missing)}")
    parts = _BRACED.split(prompt.text)
    for at in range(1, len(parts), 2):
        name = parts[at]
        parts[at] = values.get(name, "") if name in named else f"{{{name}}}"
    if (size := sum(map(len, parts))) > MAX_FILLED_CHARS:
        raise InvalidArgumentError(
            f"arguments: with them the text has {size:,} characters; at most {MAX_FILLED_CHARS:,} are allowed"
        )
    return "".join(parts)
