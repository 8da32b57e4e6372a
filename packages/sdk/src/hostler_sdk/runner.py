"""`Runner`, the base class of runners, and the manifest built from its attributes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import Any, ClassVar, get_args

import msgspec

from hostler_protocol.ids import PluginIdentity
from hostler_protocol.json_values import fields_problem
from hostler_protocol.manifest import AgentRunnerManifest, Capabilities, Capability, FormItem, Permissions
from hostler_sdk.context import RunContext
from hostler_sdk.results import Result

Text = str | Mapping[str, str]
"""Text for people: English, or a mapping of locale to text like `{"en": "Echo", "de": "Echo"}`."""


class ManifestError(ValueError):
    """A runner's attribute is not valid in a manifest; the text names it and says why."""


class Runner:
    """Base class of agents. Override `run`; the class attributes describe the runner to the host.

    One instance, built without arguments, serves all runs of the process: keep no state of a run on `self`.
    The docstring of a subclass is its label (first line) and description.

        class Echo(Runner):
            \"\"\"Repeats the input.\"\"\"

            capabilities = {"streaming"}
            config = [{"name": "suffix", "type": "string", "default": "!"}]

            async def run(self, ctx: RunContext):
                yield message(ctx.input.text + ctx.config["suffix"])
    """

    label: ClassVar[Text | None] = None
    """Overrides the first line of the docstring."""
    description: ClassVar[Text | None] = None
    """Overrides the rest of the docstring."""
    capabilities: ClassVar[Collection[str] | Mapping[str, bool]] = frozenset()
    """Features of the runner, like `{"streaming", "steering"}`; never a permission."""
    permissions: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The most that a run can be granted, like `{"history": ["page"], "models": ["invoke"]}`."""
    config: ClassVar[Sequence[Mapping[str, Any] | FormItem]] = ()
    """The form of its configuration: items with `name`, `type`, `default` and so on. Values: `ctx.config`."""

    def run(self, ctx: RunContext) -> AsyncIterator[Result] | Awaitable[Result | str | None]:
        """Serve one event. Write it as an async generator that yields results, or as a coroutine.

        A coroutine sends results with `await ctx.emit(...)`, and may return a text or a result. An exception
        ends the run as `runner.error` with its text, and its traceback goes to the run's journal. When the
        run is cancelled, `asyncio.CancelledError` is raised here: clean up in `finally`, within 5 seconds.

        All runs of a plugin share one event loop. Put blocking code into `asyncio.to_thread`: a process that
        does not answer the host's ping is killed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run(self, ctx) method")


class Statements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A runner's entry in hostler.yaml. Each field overrides the attribute of the class; None: absent."""

    name: str = "default"
    entry: str | None = None
    label: str | dict[str, str] | None = None
    description: str | dict[str, str] | None = None
    capabilities: list[str] | dict[str, bool] | None = None
    permissions: dict[str, list[str]] | None = None
    config: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


def manifest_of(
    runner: type[Runner], identity: PluginIdentity, stated: Statements | None = None
) -> AgentRunnerManifest:
    """Build a runner's manifest. Raises ManifestError if an attribute is invalid."""
    stated = stated or Statements()
    label, description = describe(
        runner, stated.label or runner.label, stated.description or runner.description
    )
    capabilities = stated.capabilities if stated.capabilities is not None else runner.capabilities
    permissions = stated.permissions if stated.permissions is not None else runner.permissions
    config = stated.config if stated.config is not None else runner.config
    manifest = AgentRunnerManifest(
        id=identity.runner_id(stated.name),
        name=stated.name,
        label=label,
        description=description,
        capabilities=_capabilities(capabilities),
        permissions=_converted({key: list(value) for key, value in permissions.items()}, Permissions),
        config_schema=form_of(config),
        metadata=stated.metadata or {},
    )
    problem = fields_problem(msgspec.structs.asdict(manifest))
    if problem is not None:
        raise ManifestError(f"{runner.__name__}: {problem}")
    return manifest


def describe(
    kind: type, label: Text | None, description: Text | None
) -> tuple[dict[str, str], dict[str, str] | None]:
    """Return label and description by locale: those given, else from the docstring of the class."""
    doc = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
    first, _, rest = doc.partition("\n")
    text = _first(description, rest.strip(), first.strip())
    name = _first(label, first.strip().removesuffix("."), kind.__name__)
    return _locales(name), _locales(text) if text else None


def _first(*texts: Text | None) -> Text:
    return next((text for text in texts if text), "")


def _locales(text: Text) -> dict[str, str]:
    return {"en": text} if isinstance(text, str) else dict(text)


def _capabilities(stated: Collection[str] | Mapping[str, bool]) -> Capabilities:
    flags = dict(stated) if isinstance(stated, Mapping) else dict.fromkeys(sorted(stated), True)
    known = get_args(Capability)
    for name in flags:
        if name not in known:
            raise ManifestError(f"unknown capability {name!r}; known are {', '.join(known)}")
    checked: Capabilities = _converted(flags, Capabilities)
    return checked


def form_of(items: Sequence[Mapping[str, Any] | FormItem]) -> list[FormItem]:
    """Return the items of a form. Raises ManifestError if one is invalid or two have one name."""
    form: list[FormItem] = []
    for item in items:
        checked: FormItem = item if isinstance(item, FormItem) else _converted(dict(item), FormItem)
        if any(checked.name == other.name for other in form):
            raise ManifestError(f"config: two items are named {checked.name!r}")
        form.append(checked)
    return form


def _converted(value: Any, kind: Any) -> Any:
    where = {Permissions: "permissions", Capabilities: "capabilities", FormItem: "config"}[kind]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: {error}") from error
