"""What waits for people, as a chat shows it: its text, its choices, and what is said of its end. Pure.

A question is shown as plain text: nothing in it is read as markup, so that nothing can be hidden in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from hostler.domain.forms import option_label, option_value
from hostler.domain.pause_actions import Action, ResolveOutcome
from hostler.domain.pause_values import Pause, PausedCall
from hostler.domain.record import Record
from hostler.domain.unseen_text import seen_text
from hostler_protocol.channels import Button, ButtonStyle
from hostler_protocol.ids import digest
from hostler_protocol.pausing import FormField

About = Literal["decision", "doubt"]
"""What is asked of a call: whether it may be made, or what it says; or whether it has happened."""
MAX_CHOICES = 20
"""More buttons are no help in a chat; such a question is answered elsewhere."""
MAX_LABEL_CHARS = 40
MAX_SHOWN_CHARS = 8_000
"""Arguments that are longer are not read in a chat: they are approved where they are seen whole."""
MAX_DESCRIPTION_CHARS = 2_000
MAX_VERDICT_CHARS = 300
MAX_NAME_CHARS = 80
VALUE_PREFIX = "ask:"
"""Values of our buttons begin so: this, the question's id, and the number of the choice."""
ELSEWHERE = "This cannot be decided in a chat: use the console, or `hostler pauses`."
_OVER = {
    "expired": "Nobody answered in time: nothing was done.",
    "cancelled": "This is over: nothing was done.",
}
_STYLES: dict[str | None, ButtonStyle] = {"primary": "primary", "danger": "danger"}


class Choice(Record):
    """One way to settle a question. `word`: what a person may write in its place, in lower case."""

    label: str
    act: Action | None = None
    resolve: ResolveOutcome | None = None
    style: ButtonStyle = "default"

    @property
    def word(self) -> str:
        """What a person may write for it."""
        return self.label.casefold()


def about_of(pause: Pause, call: PausedCall) -> About | None:
    """Return what people are asked of a call now; None if nothing, or nothing that a chat can settle."""
    if pause.status not in {"open", "needs_review"}:
        return None
    if call.review == "in_doubt":
        return "doubt"
    if call.review is not None or call.decision != "undecided" or call.kind == "client_tool":
        return None
    return "decision"


def asked_digest(about: About, call: PausedCall) -> str:
    """Return the identity of what is asked: another once the arguments, or what has happened, are others."""
    return digest([call.call_id, about, call.revision, call.args_hash, call.resolution])[:24]


def choices_of(about: About, call: PausedCall) -> list[Choice]:
    """Return the choices, always the same for the same call; none if it takes words, or another place."""
    if about == "doubt":
        return [
            Choice("It happened", resolve="happened"),
            Choice("It did not happen", resolve="not_happened"),
        ]
    if call.kind != "question":
        deny = Choice(
            "Deny", Action(call_id=call.call_id, type="deny", args_hash=call.args_hash), None, "danger"
        )
        if len(arguments_text(call.effective)) > MAX_SHOWN_CHARS:
            return [deny]
        approve = Action(call_id=call.call_id, type="approve", args_hash=call.args_hash)
        return [Choice("Approve", approve, None, "primary"), deny]
    found = _answers(call)
    return found if len(found) <= MAX_CHOICES else []


def free_field(about: About, call: PausedCall) -> FormField | None:
    """Return the field that a person may fill in with their own words, if that is all there is to answer."""
    fields = call.asked.fields
    if about == "doubt" or call.kind != "question" or len(fields) != 1 or len(call.asked.actions) > 1:
        return None
    return fields[0] if fields[0].type in {"text", "textarea", "number"} else None


def answer_in_words(call: PausedCall, field: FormField, text: str) -> Action:
    """Return the answer that somebody wrote into a question's only field."""
    value: Any = text
    if field.type == "number":
        try:
            value = json.loads(text.strip())
        except ValueError:
            value = text  # refused as what it is: no number
    elif field.type == "text":
        value = " ".join(text.split())
    button = call.asked.actions[0].name if call.asked.actions else None
    return Action(call_id=call.call_id, type="answer", values={field.name: value}, action=button)


def question_text(about: About, call: PausedCall, agent: str) -> str:
    """Return what is asked, without its choices."""
    asked, shown = call.asked, arguments_text(call.effective)
    title = f"Did {asked.tool_name} do its work?" if about == "doubt" else asked.title
    parts = [f"{agent} asks: {title}"]
    description = asked.explained or asked.fallback_text
    if description:
        parts.append(_cut(description, MAX_DESCRIPTION_CHARS))
    if len(shown) > MAX_SHOWN_CHARS:
        parts.append(f"Its arguments have {len(shown):,} characters, too many for a chat. {ELSEWHERE}")
    elif shown:
        parts.append(shown)
    needed = asked.rule.min_approvals
    if about == "decision" and call.kind != "question" and needed > 1:
        parts.append(f"{needed} approvals are needed.")
    return seen_text("\n\n".join(parts))


def arguments_text(arguments: dict[str, Any]) -> str:
    """Return arguments as lines, one for each, with every character that no reader sees as its number."""
    lines = (
        f"{name if name.isidentifier() else _visible(name)}: {_visible(value)}"
        for name, value in arguments.items()
    )
    return "\n".join(lines)


def _visible(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if seen_text(text) == text else json.dumps(value)


def instruction(about: About, call: PausedCall, choices: Sequence[Choice], first: int | None) -> str:
    """Return the lines below a question. `first`: the number of its first choice; None: it has buttons."""
    field = free_field(about, call)
    if choices and first is None:
        return ""
    if choices and first is not None:
        lines = [f"{first + at}. {choice.label}" for at, choice in enumerate(choices)]
        return seen_text("\n".join([*lines, "Answer with a number."]))
    if field is not None:
        name = field.label or field.name
        return seen_text(f"Reply to this message with: {_cut(name, MAX_LABEL_CHARS)}")
    return ELSEWHERE


def buttons_of(question_id: str, choices: Sequence[Choice]) -> list[list[Button]]:
    """Return the buttons of a question: short ones side by side, as chats lay them out."""
    made = [
        Button(label=choice.label, value=f"{VALUE_PREFIX}{question_id}:{at}", style=choice.style)
        for at, choice in enumerate(choices)
    ]
    row = all(len(button.label) <= MAX_LABEL_CHARS // 2 for button in made) and len(made) <= 3
    return [made] if row else [[button] for button in made]


def pressed(value: object) -> tuple[str, int] | None:
    """Return the question and the number of the choice in a button's value; None if it is none of ours."""
    if not isinstance(value, str) or not value.startswith(VALUE_PREFIX):
        return None
    question_id, _, number = value.removeprefix(VALUE_PREFIX).partition(":")
    return question_id, int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1


def written(choices: Sequence[Choice], first: int, text: str) -> int | None:
    """Return which choice a text means, by its number or its words; None if none."""
    said = " ".join(text.split()).casefold().rstrip(".!")
    if said.isascii() and said.isdigit() and len(said) < 6:
        at = int(said) - first
        return at if 0 <= at < len(choices) else None
    meant = [at for at, choice in enumerate(choices) if choice.word == said]
    return meant[0] if len(meant) == 1 else None


def verdict_text(about: About, pause: Pause, call: PausedCall, by: str | None) -> str:
    """Return what is said of a question that is settled. `by`: how who settled it is called."""
    who = seen_text(_cut(by, MAX_NAME_CHARS)) if by else None
    if about == "doubt" and call.execution != "in_doubt":
        happened = "it happened" if call.execution == "succeeded" else "it did not happen"
        return f"{who} says that {happened}." if who else f"It is known now: {happened}."
    by_whom = f" by {who}" if who else ""
    if call.decision in {"approved", "denied"}:
        return _with_comment(call.decision.capitalize() + by_whom, call.given.comment)
    if call.decision == "answered":
        return _with_comment(f"Answered{by_whom}", _answer_of(call))
    if call.decision == "undecided" and pause.status in {"open", "needs_review"}:
        return "This has changed since, and is asked anew."
    return _OVER.get(call.decision, "Nothing waits for this any more.")


def _with_comment(said: str, comment: str | None) -> str:
    return seen_text(f"{said}: {_cut(comment, MAX_VERDICT_CHARS)}" if comment else f"{said}.")


def _answer_of(call: PausedCall) -> str | None:
    given = call.given
    labels = {button.name: button.label or button.name for button in call.asked.actions}
    said = [labels[given.action]] if given.action in labels else []
    if len(call.asked.fields) == 1 and given.values:
        said += [value if isinstance(value, str) else json.dumps(value) for value in given.values.values()]
    return ", ".join(said) or None


def _answers(call: PausedCall) -> list[Choice]:
    """Return the choices of a question: its buttons, or the options of its only field."""
    fields, buttons = call.asked.fields, call.asked.actions
    open_fields = [field for field in fields if field.required and field.default is None]
    if not open_fields and buttons and not (len(buttons) == 1 and fields):
        return [
            Choice(
                _cut(button.label or button.name, MAX_LABEL_CHARS),
                Action(call_id=call.call_id, type="answer", values={}, action=button.name),
                None,
                _STYLES.get(button.style, "default"),
            )
            for button in buttons
        ]
    button = buttons[0].name if len(buttons) == 1 else None
    if len(buttons) > 1 or len(fields) > 1:
        return []
    if not fields:
        return [Choice("OK", Action(call_id=call.call_id, type="answer", values={}, action=button))]
    return [
        Choice(
            _cut(label, MAX_LABEL_CHARS),
            Action(call_id=call.call_id, type="answer", values={fields[0].name: value}, action=button),
        )
        for label, value in _options(fields[0])
    ]


def _options(field: FormField) -> list[tuple[str, Any]]:
    if field.type == "boolean":
        return [("Yes", True), ("No", False)]
    if field.type != "select":
        return []
    return [(seen_text(option_label(one)), option_value(one)) for one in field.options]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
