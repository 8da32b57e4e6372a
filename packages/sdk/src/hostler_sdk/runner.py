"""The class a runner author derives from, and the manifest that its statements make."""

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
"""Text for people: plain (English), or a mapping of locale to text."""


class ManifestError(ValueError):
    """A runner states something of itself that the protocol does not know; the text says what."""


class Runner:
    """An agent, as the host runs it. One instance serves all runs: keep no state of a run on `self`.

    The docstring of a subclass is its label (first line) and description.
    """

    label: ClassVar[Text | None] = None
    """Overrides the docstring's first line."""
    description: ClassVar[Text | None] = None
    """Overrides the docstring."""
    capabilities: ClassVar[Collection[str] | Mapping[str, bool]] = frozenset()
    """Names like `streaming`; statements for display, never a grant."""
    permissions: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The most this runner may ask of the host, like `{"history": ["page"]}`."""
    config: ClassVar[Sequence[Mapping[str, Any] | FormItem]] = ()
    """The form items of its configuration."""

    def run(self, ctx: RunContext) -> AsyncIterator[Result] | Awaitable[Result | str | None]:
        """Serve one event: an async generator of results, or a coroutine.

        A coroutine may use `await ctx.emit(...)` and returns text, a message or None. Raising ends the
        run as `runner.error` with the exception's text; `asyncio.CancelledError` is a cancellation.
        A plugin's runs share one event loop: blocking code belongs into `asyncio.to_thread`, since the
        host ends a process that no longer answers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run(self, ctx) method")


class Statements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What hostler.yaml states of a runner; each wins over what its class states. None: not stated."""

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
    """Build a runner's manifest. ManifestError where a statement is wrong."""
    stated = stated or Statements()
    doc = inspect.cleandoc(runner.__dict__.get("__doc__") or "")
    first, _, rest = doc.partition("\n")
    label = _first(stated.label, runner.label, first.strip().removesuffix("."), runner.__name__)
    description = _first(stated.description, runner.description, rest.strip(), first.strip())
    capabilities = stated.capabilities if stated.capabilities is not None else runner.capabilities
    permissions = stated.permissions if stated.permissions is not None else runner.permissions
    config = stated.config if stated.config is not None else runner.config
    manifest = AgentRunnerManifest(
        id=identity.runner_id(stated.name),
        name=stated.name,
        label=_locales(label),
        description=_locales(description) if description else None,
        capabilities=_capabilities(capabilities),
        permissions=_converted({key: list(value) for key, value in permissions.items()}, Permissions),
        config_schema=_form(config),
        metadata=stated.metadata or {},
    )
    problem = fields_problem(msgspec.structs.asdict(manifest))
    if problem is not None:
        raise ManifestError(f"{runner.__name__}: {problem}")
    return manifest


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


def _form(items: Sequence[Mapping[str, Any] | FormItem]) -> list[FormItem]:
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
