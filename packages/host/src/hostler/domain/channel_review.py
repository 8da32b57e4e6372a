"""Check an entry of `channels` against what the installation has: its plugin, the form, its agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hostler.domain.channels import ChannelEntry, channel_mistakes, written_secret_mistakes
from hostler.domain.config_checks import config_mistakes
from hostler.domain.config_mistakes import Mistake, key_place, nearest
from hostler.domain.inventory import Inventory, PluginFacts
from hostler.domain.secret_refs import is_reference, reference_mistake
from hostler_protocol.channels import ChannelManifest


def review_channel(
    entry: ChannelEntry,
    inventory: Inventory,
    unreadable: Callable[[str], str | None],
    *,
    stored: bool = False,
) -> Iterator[Mistake]:
    """Yield the mistakes that depend on what there is. `unreadable`: why a reference cannot be read, or None.

    Nothing is said of an entry that is wrong by itself, nor of one that is `stored` what cannot be known
    before its plugin runs. What a disabled one names need not be there, so that
    these are warnings; a secret that is written out never passes.
    """
    if any(channel_mistakes(entry)):
        return
    facts = inventory.plugins.get(entry.plugin_key)
    manifest = None if facts is None else facts.channels.get(entry.channel_name)
    is_unknown = manifest is None and facts is not None and facts.runners is None
    for mistake in () if stored and is_unknown else _against(entry, inventory, facts, manifest):
        yield mistake if entry.enabled else mistake.as_warning()
    if stored and manifest is None:
        pass  # it was looked at when it was stored
    elif manifest is not None:
        yield from written_secret_mistakes(manifest.config_schema, entry)
    else:
        yield from _perhaps_secrets(entry)
    for name, value in entry.config.items():
        is_readable = not is_reference(value) or reference_mistake(value) is not None
        if not is_readable and (why := unreadable(value)) is not None:
            yield Mistake(key_place("config", name), why, "warning")
    if entry.agent is not None and (wrong := inventory.agent(entry.agent)) is not None:
        yield wrong.within("agent")


def _against(
    entry: ChannelEntry, inventory: Inventory, facts: PluginFacts | None, manifest: ChannelManifest | None
) -> Iterator[Mistake]:
    """Yield the mistakes in naming plugin and channel, or in the values of its form."""
    key, name = entry.plugin_key, entry.channel_name
    if manifest is not None:
        yield from (one.within("config") for one in config_mistakes(manifest.config_schema, entry.config))
    elif facts is None:
        # of a plugin that was never started it is not known what it offers
        known = [key for key, one in inventory.plugins.items() if one.channels or one.runners is None]
        hint = nearest(key, known) or "; add it (`hostler plugins add FOLDER`)"
        yield Mistake("channel", f"there is no plugin {key!r}{hint}")
    elif facts.runners is not None:
        hint = nearest(name, facts.channels) or "; it has none"
        yield Mistake("channel", f"plugin {key!r} has no channel {name!r}{hint}")
    elif facts.why:
        text = f"whether plugin {key!r} has this channel, with this config, is not known: {facts.why}"
        yield Mistake("channel", text, "warning")


def _perhaps_secrets(entry: ChannelEntry) -> Iterator[Mistake]:
    """Yield the mistakes of an entry whose form is not known: any text in it may be a secret."""
    for name, value in entry.config.items():
        if isinstance(value, str) and value and not is_reference(value):
            text = (
                "whether this is a secret is not known while its plugin does not run: start that first, or "
                "name the value by env:NAME, file:PATH or secret://NAME"
            )
            yield Mistake(key_place("config", name), text)
