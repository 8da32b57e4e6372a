"""What agents of a workspace may use: the entries of `workspaces` in the configuration.

The installation's own workspace may use everything, unless it has an entry. Any other one without an entry
may use everything but the tools that reach the operator's machine and accounts, and the plugins that give
all their agents one shell.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

from hostler.domain.budget_limits import WorkspaceBudget, budget_mistakes
from hostler.domain.config_mistakes import Mistake
from hostler.domain.name_patterns import matches, may_begin
from hostler.domain.quotas import NO_ROOM, WorkspaceQuota
from hostler.domain.secret_refs import is_reference
from hostler_protocol._base import Strict
from hostler_protocol.ids import split_runner_id

EVERY_OTHER = "*"
"""The name of the entry for all workspaces without an entry, other than the installation's own."""
MAX_ALLOWED = 1_000
"""Names and patterns in one list of an entry."""
TOOLS_OF_ALL = ("plugin:", "skill:", "files:")
"""Kinds of tools, by prefix of their ids, that a workspace may use without being allowed to: they do what its
own files and the plugins' sandboxes permit. `exec` runs commands, the others use the operator's network and
accounts."""

PLUGINS_WITH_A_SHELL = frozenset({"hostler/acp"})
"""Plugins that come with the host and whose agents run commands in one sandbox for all of them: as with
`exec`, a workspace other than the installation's own has to be allowed to use them."""


class WorkspaceEntry(Strict):
    """What agents of a workspace may use, as names and patterns with `*`; null: no bound of its own.

    `name`: the workspace, or `*` for all that have no entry, except the installation's own. `runners` are ids
    (`plugin:author/name/*`); `plugins` (`author/name`) bounds runners and tools. `secrets` are references
    (`env:TENANT_*`, `file:/srv/tenant/*`). `quota`: how much it may keep stored. `budget`: what its agents
    use together at most.
    """

    name: str
    plugins: list[str] | None = None
    runners: list[str] | None = None
    models: list[str] | None = None
    tools: list[str] | None = None
    skills: list[str] | None = None
    knowledge_bases: list[str] | None = None
    secrets: list[str] | None = None
    quota: WorkspaceQuota = WorkspaceQuota()
    budget: WorkspaceBudget | None = None


LISTS = tuple(name for name in WorkspaceEntry.__struct_fields__ if name not in {"name", "quota", "budget"})


def closed_entry(name: str) -> WorkspaceEntry:
    """Return the entry of a workspace that may use and store nothing."""
    nothing: dict[str, Any] = {field: [] for field in LISTS}
    return WorkspaceEntry(name=name, quota=NO_ROOM, **nothing)


class Allowance:
    """What agents of one workspace may use."""

    def __init__(self, workspace_id: str, entry: WorkspaceEntry | None, *, own: bool) -> None:
        self.workspace_id = workspace_id
        self._entry = entry or WorkspaceEntry(name=workspace_id)
        self._has_entry = entry is not None
        self._own = own

    @property
    def quota(self) -> WorkspaceQuota:
        """How much the workspace may keep stored."""
        return self._entry.quota

    def plugin(self, plugin_key: str) -> bool:
        """Whether agents may use runners and tools of this plugin (`author/name`)."""
        if self._entry.plugins is None and plugin_key in PLUGINS_WITH_A_SHELL:
            return self._own
        return _listed(self._entry.plugins, plugin_key)

    def runner(self, runner_id: str) -> bool:
        """Whether agents may name this runner; an id that is malformed is none."""
        try:
            plugin_key, _ = split_runner_id(runner_id)
        except ValueError:
            return False
        return self.plugin(plugin_key) and _listed(self._entry.runners, runner_id)

    def model(self, model_id: str) -> bool:
        """Whether runs may be granted this model."""
        return _listed(self._entry.models, model_id)

    def tool(self, name: str, tool_id: str) -> bool:
        """Whether runs may be granted this tool. `tool_id`: its identity, like `plugin:author/name#tool`."""
        kind, _, rest = tool_id.partition(":")
        if kind == "plugin" and not self.plugin(rest.partition("#")[0]):
            return False
        if kind == "skill" and not self.skill(rest):
            return False
        if self._entry.tools is None:
            return self._own or tool_id.startswith(TOOLS_OF_ALL)
        return kind == "skill" or _listed(self._entry.tools, name)

    def skill(self, name: str) -> bool:
        """Whether runs may be granted this skill, and with it its tool."""
        return _listed(self._entry.skills, name)

    def knowledge_base(self, kb_id: str) -> bool:
        """Whether runs may be granted this knowledge base."""
        return _listed(self._entry.knowledge_bases, kb_id)

    @property
    def bounds(self) -> tuple[str, tuple[str, ...]] | None:
        """The name of the entry that bounds this workspace, with its lists; None without one."""
        if not self._has_entry:
            return None
        lists = tuple(field for field in LISTS if getattr(self._entry, field) is not None)
        return self._entry.name, lists

    @property
    def budget(self) -> WorkspaceBudget | None:
        """What all its agents together may use at most; None: there is no bound."""
        return self._entry.budget

    @property
    def lists_secrets(self) -> bool:
        """Whether the entry says which references may be resolved: those, and no others."""
        return self._entry.secrets is not None

    @property
    def secret_files(self) -> list[str] | None:
        """Patterns of the paths that references to files may lead to; None: there is no list."""
        if self._entry.secrets is None:
            return None
        prefix = "file:"
        paths = [one.removeprefix(prefix) for one in self._entry.secrets if one.startswith(prefix)]
        return [*paths, EVERY_OTHER] if EVERY_OTHER in self._entry.secrets else paths

    def secret(self, reference: str) -> bool:
        """Whether this reference may be resolved in the configuration of an agent.

        A path has to be written as it is, without `..` and `~`: a pattern would match what it does not mean.
        """
        kind, _, path = reference.partition(":")
        if self.lists_secrets and kind == "file" and posixpath.join("/", posixpath.normpath(path)) != path:
            return False
        return _listed(self._entry.secrets, reference)

    def tools_of(self, prefix: str, source: str) -> bool:
        """Whether runs may be granted some tool of a source whose tools are not known: only how their names
        begin. `source`: the beginning of their ids.
        """
        if not source.startswith("plugin:") or self.plugin(source.removeprefix("plugin:").partition("#")[0]):
            if self._entry.tools is None:
                return self._own or source.startswith(TOOLS_OF_ALL)
            return any(may_begin(pattern, prefix) for pattern in self._entry.tools)
        return False

    def withholds(self, kind: str) -> bool:
        """Whether there may be things of this kind that the workspace may not use."""
        lists = {"runner": ("plugins", "runners"), "tool": ("plugins", "skills", "tools")}
        fields = lists.get(kind, (f"{kind.replace(' ', '_')}s",))
        is_listed = any(getattr(self._entry, field) is not None for field in fields)
        return is_listed or (kind == "tool" and not self._own)

    def refused(self, kind: str, name: str, *, perhaps: bool = False) -> str:
        """Return the sentence about something that may not be used, with what to do about it.

        `perhaps`: without telling whether it exists.
        """
        plugin = name.removeprefix("plugin:").rpartition("/")[0]
        by_plugin = kind == "runner" and plugin in PLUGINS_WITH_A_SHELL and not self.plugin(plugin)
        field = "plugins" if by_plugin else f"{kind.replace(' ', '_')}s"
        whether = ", if there is one" if perhaps else ""
        return (
            f"workspace {self.workspace_id!r} may not use {kind} {name!r}{whether}: the operator can allow "
            f"it with {field!r} of its entry in `workspaces`"
        )


class Allowances:
    """The allowances of all workspaces; replaced when the configuration changes."""

    def __init__(self, own_workspace: str, entries: Iterable[WorkspaceEntry] = ()) -> None:
        self._own = own_workspace
        self._entries: dict[str, WorkspaceEntry] = {}
        self.revision = 0
        """Increases with each change."""
        self.replace(entries)

    def replace(self, entries: Iterable[WorkspaceEntry]) -> None:
        """Use other entries from now on."""
        new = {entry.name: entry for entry in entries}
        if new != self._entries:
            self._entries = new
            self.revision += 1

    def of(self, workspace_id: str) -> Allowance:
        """Return what agents of a workspace may use."""
        own = workspace_id == self._own
        entry = self._entries.get(workspace_id)
        if entry is None and not own:
            entry = self._entries.get(EVERY_OTHER)
        return Allowance(workspace_id, entry, own=own)


def workspace_mistakes(entry: WorkspaceEntry) -> list[Mistake]:
    """Return the mistakes of an entry."""
    found = []
    for field in LISTS:
        names: Sequence[str] = getattr(entry, field) or ()
        if len(names) > MAX_ALLOWED:
            found.append(Mistake(field, f"has {len(names):,} names; at most {MAX_ALLOWED:,} are allowed"))
        found += [Mistake(f"{field}[{number}]", "is empty") for number, name in enumerate(names) if not name]
    for number, pattern in enumerate(entry.secrets or ()):
        if pattern and pattern != EVERY_OTHER and not is_reference(pattern):
            text = "expected a reference: env:NAME or file:PATH, perhaps with *"
            found.append(Mistake(f"secrets[{number}]", text))
    if entry.budget is not None:
        found += budget_mistakes(entry.budget, "budget")
    return found


def _listed(allowed: Sequence[str] | None, name: str) -> bool:
    return allowed is None or any(matches(pattern, name) for pattern in allowed)
