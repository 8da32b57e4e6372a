"""The resources of an installation that agents can name: usable, unusable or not known now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches

import msgspec

from hostler.domain.allowances import Allowance, Allowances
from hostler.domain.config_mistakes import Mistake, nearest
from hostler.domain.model_entries import ModelType
from hostler.domain.name_patterns import matches, may_begin
from hostler.domain.record import Record
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest

_WORDS: dict[ModelType, str] = {"llm": "model", "rerank": "rerank model", "embedding": "embedding model"}


class PluginFacts(Record):
    """The runners of a plugin; None if they are not known now. `why`: the reason, "" if not looked up.

    `channels` are known if the runners are.
    """

    runners: Mapping[str, AgentRunnerManifest] | None
    why: str = ""
    channels: Mapping[str, ChannelManifest] = msgspec.field(default_factory=dict)


def _readable(reference: str) -> str | None:
    return None


class Inventory(Record):
    """Resources by the names that agents use. `unusable_*`: existing but unusable, with the reason."""

    workspace_id: str = "default"
    plugins: Mapping[str, PluginFacts] = msgspec.field(default_factory=dict)
    """By key, `author/name`."""
    models: Mapping[str, ModelType] = msgspec.field(default_factory=dict)
    unusable_models: Mapping[str, str] = msgspec.field(default_factory=dict)
    unpriced_models: frozenset[str] = frozenset()
    tools: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Name -> id, or what of it is known: the kind and the source."""
    unusable_tools: Mapping[str, str] = msgspec.field(default_factory=dict)
    unlisted_tools: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Sources whose tools are not known: prefix of their tools' names -> the reason, "" if not looked up."""
    skills: Collection[str] = ()
    unusable_skills: Mapping[str, str] = msgspec.field(default_factory=dict)
    knowledge_bases: Collection[str] = ()
    agents: Collection[str] | None = None
    """Names of the agents of the workspace; None: not looked up."""
    channels: Mapping[str, bool] | None = None
    """Channels of the workspace, by name, and whether they are enabled; None: not looked up."""
    unreadable: Callable[[str], str | None] = _readable
    """Return why the secret of a reference cannot be read now, or None if it can."""
    allowances: Allowances | None = None
    """What workspaces may use; None: this one may use everything."""

    def runner(self, runner_id: str) -> tuple[AgentRunnerManifest | None, Mistake | None]:
        """Return the manifest of a runner, or the mistake in naming it."""
        try:
            plugin_key, name = split_runner_id(runner_id)
        except ValueError as error:
            return None, Mistake("", f"{error}{_did_you_mean(runner_id, self._runner_ids())}")
        may_use, facts = self._may.runner(runner_id), self.plugins.get(plugin_key)
        if may_use and facts is not None:
            return self._runner_of(plugin_key, name, facts)
        hint = self._near_runner(plugin_key, runner_id)
        if not may_use:
            return None, self._out_of_reach("runner", runner_id, hint)
        add = "" if hint else "; add it (`hostler plugins add FOLDER`), or make a key for it if it dials in"
        return None, Mistake("", f"there is no plugin {plugin_key!r}{hint}{add}")

    def _near_runner(self, plugin_key: str, runner_id: str) -> str:
        """Return a hint that names a usable runner of the plugin with the nearest key, or ""."""
        ids = self._runner_ids()
        # compare keys alone: whole ids share so much that any other plugin would seem similar
        near = get_close_matches(plugin_key, {_key_of(one) for one in ids}, n=1)
        return _did_you_mean(runner_id, [one for one in ids if _key_of(one) in near])

    def _runner_of(
        self, plugin_key: str, name: str, facts: PluginFacts
    ) -> tuple[AgentRunnerManifest | None, Mistake | None]:
        if facts.runners is None and not facts.why:
            return None, None
        if facts.runners is None:
            text = f"whether plugin {plugin_key!r} has this runner and takes this config is not known: "
            return None, Mistake("", text + facts.why, "warning")
        if name not in facts.runners:
            allowed = [one for one in facts.runners if self._may.runner(f"plugin:{plugin_key}/{one}")]
            hint = nearest(name, allowed) or "; it has none"
            return None, Mistake("", f"plugin {plugin_key!r} has no runner {name!r}{hint}")
        return facts.runners[name], None

    def model(self, model_id: str, expected: ModelType | None = None) -> Mistake | None:
        """Return the mistake in naming this model, or None. `expected`: the type that it must have."""
        known = self.models.get(model_id)
        may = self._may
        same = [name for name, kind in self.models.items() if expected in (None, kind) and may.model(name)]
        if may.withholds("model") and (known is None or not may.model(model_id)):
            return self._out_of_reach("model", model_id, _did_you_mean(model_id, same))
        if known is None:
            what = _WORDS[expected or "llm"]
            return Mistake("", f"there is no {what} {model_id!r}{_listed(model_id, same, f'{what}s')}")
        if expected is not None and known != expected:
            text = f"{model_id!r} is a {_WORDS[known]}, a {_WORDS[expected]} is expected"
            return Mistake("", f"{text}{_listed(model_id, same, f'{_WORDS[expected]}s')}")
        if model_id in self.unusable_models:
            why = self.unusable_models[model_id]
            return Mistake("", f"model {model_id!r} cannot be used now: {why}", "warning")
        return None

    def tool(self, pattern: str) -> Mistake | None:
        """Return the mistake in naming this tool or pattern, or None.

        A pattern that begins with `*` names no source, and may match nothing.
        """
        if pattern.startswith("*"):
            return None
        is_pattern = "*" in pattern
        if any(matches(pattern, name) if is_pattern else name == pattern for name in self._usable_tools()):
            return None
        for name, why in self.unusable_tools.items():
            if matches(pattern, name):
                return Mistake("", f"tool {name!r} cannot be used now: {why}", "warning")
        for prefix, why in self.unlisted_tools.items():
            if may_begin(pattern, prefix):
                what = "a tool matches" if is_pattern else "there is a tool"
                text = f"whether {what} {pattern!r} is not known: {why}"
                return Mistake("", text, "warning") if why else None
        return self._no_tool(pattern)

    def _no_tool(self, pattern: str) -> Mistake:
        names = [*self._usable_tools(), *self.unusable_tools]
        if self._may.withholds("tool"):
            return self._out_of_reach("tool", pattern, _did_you_mean(pattern, names))
        if "*" not in pattern:
            return Mistake("", f"there is no tool {pattern!r}{_listed(pattern, names, 'tools')}")
        sources = {f"{name.partition('.')[0]}.*" for name in names if "." in name}
        sources |= {f"{prefix}*" for prefix in self.unlisted_tools}
        return Mistake("", f"no tool matches {pattern!r}{_listed(pattern, sources, 'tools')}")

    def _usable_tools(self) -> list[str]:
        may = self._may
        return [name for name, tool_id in self.tools.items() if may.tool(name, tool_id)]

    def skill(self, name: str) -> Mistake | None:
        """Return the mistake in naming this skill, or None."""
        may = self._may
        usable = [one for one in self.skills if may.skill(one)]
        if may.withholds("skill") and not (may.skill(name) and name in {*self.skills, *self.unusable_skills}):
            return self._out_of_reach("skill", name, _did_you_mean(name, usable))
        if name in self.unusable_skills:
            why = self.unusable_skills[name]
            return Mistake("", f"skill {name!r} cannot be used now: {why}", "warning")
        if name in self.skills:
            return None
        return Mistake("", f"there is no skill {name!r}{_listed(name, usable, 'skills')}")

    def knowledge_base(self, kb_id: str) -> Mistake | None:
        """Return the mistake in naming this knowledge base, or None."""
        usable = [one for one in self.knowledge_bases if self._may.knowledge_base(one)]
        if kb_id in usable:
            return None
        if self._may.withholds("knowledge base"):
            return self._out_of_reach("knowledge base", kb_id, _did_you_mean(kb_id, usable))
        hint = _listed(kb_id, usable, "knowledge bases")
        return Mistake("", f"there is no knowledge base {kb_id!r}{hint}")

    def agent(self, pattern: str) -> Mistake | None:
        """Return the mistake in naming this agent or pattern, or None. A warning: it may be made later."""
        known = self.agents
        if known is None or pattern in known:
            return None
        if "*" not in pattern:
            return Mistake("", f"there is no agent {pattern!r}{nearest(pattern, known)}", "warning")
        if any(matches(pattern, name) for name in known):
            return None
        return Mistake("", f"no agent matches {pattern!r}", "warning")

    def channel(self, name: str) -> Mistake | None:
        """Return the mistake in naming this channel, or None. A warning: it may be made later."""
        known = self.channels
        if known is None or known.get(name):
            return None
        if name in known:
            return Mistake("", f"nothing is shown there while channel {name!r} is disabled", "warning")
        hint = _listed(name, known, "channels")
        return Mistake("", f"nothing is shown there: there is no channel {name!r:.200}{hint}", "warning")

    def _out_of_reach(self, kind: str, name: str, hint: str) -> Mistake:
        """The same mistake whether or not it exists. `hint` names what the workspace may use."""
        return Mistake("", f"{self._may.refused(kind, name, perhaps=True)}{hint}")

    @property
    def _may(self) -> Allowance:
        return (self.allowances or Allowances(self.workspace_id)).of(self.workspace_id)

    def _runner_ids(self) -> list[str]:
        """Return the runners that the workspace may use."""
        may = self._may
        ids = (
            f"plugin:{key}/{name}"
            for key, facts in self.plugins.items()
            for name in facts.runners or ("default",)
        )
        return [one for one in ids if may.runner(one)]


def _listed(word: str, known: Iterable[str], what: str) -> str:
    """Return a hint: the nearest known name, or that there are none."""
    return nearest(word, known) or f"; this host has no {what}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    hint = nearest(word, known)
    return hint if hint.startswith("; did you mean") else ""


def _key_of(runner_id: str) -> str:
    return split_runner_id(runner_id)[0]
