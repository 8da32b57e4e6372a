"""Tools: functions that a plugin offers to agents, declared with `@tool`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, overload

import msgspec

from hostler_protocol.events import Actor
from hostler_protocol.json_values import fields_problem, json_problem
from hostler_protocol.manifest import ToolEffect, ToolManifest
from hostler_sdk.errors import InvalidArgument, RuntimeFailure

Effect = ToolEffect
EFFECTS: tuple[Effect, ...] = get_args(ToolEffect)
Lookup = Callable[[str], Any]
"""A plain or async function of an effect key; returns the recorded result, or None."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Run and caller of a tool call. Annotate a parameter with it to receive it; it is not in the schema.

    `effect_key` stays the same when the host repeats the call: use it as an idempotency key.
    """

    run_id: str
    call_id: str
    effect_key: str
    workspace_id: str = ""
    actor: Actor | None = None
    deadline: float | None = None
    """UTC epoch seconds; None: never."""


class Tool:
    """A function offered as a tool, with its description and JSON Schema. Made by `@tool`.

    `effect` says how the host settles a call whose outcome it lost. `pure`: the tool has no effect, so it is
    called again. `idempotent`: it is called again with the same effect key. `reconcilable`: its `lookup` is
    asked for the outcome by the effect key. `default`: it is never called again; a person says what happened.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        effect: Effect = "default",
        client: bool = False,
        approval: Literal["required"] | None = None,
    ) -> None:
        if effect not in EFFECTS:
            raise ValueError(f"effect {effect!r} is unknown; it is one of {', '.join(EFFECTS)}")
        if approval not in (None, "required"):
            raise ValueError('approval can only be "required": whether less is enough is the agent\'s policy')
        self.function = function
        self.name = function.__name__
        self.effect: Effect = effect
        self.client = client
        self.approval = approval
        self.description, notes = _read_docstring(inspect.getdoc(function) or "")
        self._fields, self._context_name = _read_signature(function)
        self._arguments = msgspec.defstruct(self.name, self._fields, kw_only=True, forbid_unknown_fields=True)
        self.parameters = _schema(self._arguments, notes)
        """JSON Schema of the parameters."""
        self._returns = typing.get_type_hints(function, include_extras=True).get("return", Any)
        self.output_schema = _output_schema(self._returns)
        """JSON Schema of the result, from the function's return annotation; None without one."""
        problem = fields_problem({"parameters": self.parameters, "output_schema": self.output_schema})
        if problem is not None:
            raise TypeError(f"tool {self.name}: {problem}")
        self._lookup: Lookup | None = None

    def lookup(self, function: Lookup) -> Lookup:
        """Decorate a function that returns the result recorded under an effect key, or None.

            @tool(effect="reconcilable")
            def book(seat: str, ctx: ToolContext) -> str:
                return bookings.add(ctx.effect_key, seat)

            @book.lookup
            def booked(effect_key: str) -> str | None:
                return bookings.find(effect_key)

        Raises ValueError for a tool of another effect.
        """
        if self.effect != "reconcilable":
            raise ValueError(f'{self.name}.lookup needs @tool(effect="reconcilable")')
        self._lookup = function
        return function

    async def invoke(self, parameters: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Check parameters and call the function. Raises InvalidArgument if they do not match its schema."""
        outcome = self.function(**self.arguments_of(parameters, ctx))
        return await outcome if inspect.isawaitable(outcome) else outcome

    def arguments_of(self, parameters: Mapping[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """Return the function's arguments. Raises InvalidArgument if `parameters` do not match its schema."""
        if self.client:
            raise InvalidArgument(f"{self.name} runs on the client; it has no code here")
        try:
            arguments = msgspec.convert(dict(parameters), self._arguments)
        except msgspec.ValidationError as error:
            raise InvalidArgument(f"{self.name}: {error}") from error
        named = {name: getattr(arguments, name) for name in self._arguments.__struct_fields__}
        if self._context_name is not None:
            named[self._context_name] = ctx
        return named

    def json_result(self, result: Any) -> Any:
        """Return the result as it is sent to the host. Raises RuntimeFailure if JSON cannot carry it.

        A result of the annotated return type is sent as its schema says, like a dataclass as an object.
        """
        problem = json_problem(result, "result")
        if problem is None:
            return result
        try:
            plain = msgspec.to_builtins(result)
            is_declared = self._returns is not Any and msgspec.convert(plain, self._returns) == result
        except (TypeError, ValueError, RecursionError):  # msgspec: it is neither JSON nor what is declared
            is_declared = False
        if is_declared and json_problem(plain) is None:
            return plain
        raise RuntimeFailure(f"the result of {self.name} is not JSON: {problem}")

    async def outcome_of(self, effect_key: str) -> Any:
        """Return the result recorded under an effect key, or None."""
        outcome = self.lookup_function(effect_key)
        return await outcome if inspect.isawaitable(outcome) else outcome

    @property
    def has_lookup(self) -> bool:
        """Whether a function is decorated with `lookup`."""
        return self._lookup is not None

    @property
    def lookup_function(self) -> Lookup:
        """The function decorated with `lookup`. Raises InvalidArgument if there is none."""
        if self._lookup is None:
            raise InvalidArgument(f"{self.name} has no lookup: its outcomes cannot be told")
        return self._lookup

    @property
    def manifest(self) -> ToolManifest:
        """The tool's manifest."""
        return ToolManifest(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            output_schema=self.output_schema,
            effect=self.effect,
            client=self.client,
            approval=self.approval,
        )

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function directly, without checking parameters."""
        return self.function(*args, **named)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, effect: Effect = "default", client: bool = False, approval: Literal["required"] | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "default",
    client: bool = False,
    approval: Literal["required"] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Offer a function to agents as the tool `<plugin name>.<function>`.

    List it in hostler.yaml, as in `tools: ["my_module:weather"]`. The docstring describes the tool to models,
    and lines `name: text` describe its parameters. Annotations give the JSON Schema of parameters and result.
    A coroutine runs on the event loop, a plain function in a thread. Raise an exception to fail the call: its
    text is the error. `effect` is explained at `Tool`.

        @tool(effect="pure")
        def weather(city: str, days: int = 1) -> str:
            \"\"\"The weather forecast of a city.

            days: number of days, 1 to 7
            \"\"\"

    `client=True` declares a tool that the client runs; its body is not called. `approval="required"` demands
    a person's approval even if the agent's policy does not. Raises TypeError for a parameter that cannot be
    given by name, or a default that is not JSON.
    """
    if function is not None:
        return Tool(function)
    return lambda decorated: Tool(decorated, effect, client, approval)


def _read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into the description and the notes on parameters, from lines `name: text`."""
    description, notes = [], {}
    for line in doc.splitlines():
        name, colon, text = line.strip().partition(":")
        if colon and name.isidentifier() and text.strip():
            notes[name] = text.strip()
        else:
            description.append(line.rstrip())
    return "\n".join(description).strip(), notes


def _read_signature(function: Callable[..., Any]) -> tuple[list[Any], str | None]:
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context_name: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"tool {function.__name__}: {parameter} cannot be called by name")
        kind = hints.get(name, Any)
        if kind is ToolContext:
            context_name = name
        elif parameter.default is parameter.empty:
            fields.append((name, kind))
        else:
            default = parameter.default
            if isinstance(default, list | dict | set):
                default = msgspec.field(default_factory=default.copy)
            fields.append((name, kind, default))
    return fields, context_name


def _output_schema(kind: Any) -> dict[str, Any] | None:
    if kind is Any or kind is type(None):
        return None
    try:
        schema = msgspec.json.schema(kind)
    except TypeError:  # a class without a JSON Schema
        return None
    return schema or None


def _schema(arguments: type[msgspec.Struct], notes: Mapping[str, str]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    own: dict[str, Any] = components.pop(arguments.__name__)
    own.pop("title", None)
    for name, note in notes.items():
        if name in own["properties"]:
            own["properties"][name] = {**own["properties"][name], "description": note}
    if components:
        own["$defs"] = components
    return own
