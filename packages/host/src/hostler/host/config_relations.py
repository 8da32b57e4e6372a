"""Mistakes of entries that other entries make such: what they name is missing, or there twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hostler.domain.channels import ChannelEntry
from hostler.domain.config_changes import Kind
from hostler.domain.config_mistakes import Mistake
from hostler.domain.sign_in import MAX_PROVIDERS
from hostler.domain.suggestions import did_you_mean
from hostler.host.config import ConfigFile
from hostler.host.config_entries import POLICY
from hostler.host.stored_config import StoredConfig


def _unknown_webhook(config: ConfigFile, stored: ConfigFile, *, prune: bool) -> Mistake | None:
    """Return the mistake in naming a webhook for anchors that there will not be, or None."""
    wanted = None if config.audit_anchors is None else config.audit_anchors.webhook
    names = [webhook.name for webhook in (*config.webhooks, *(() if prune else stored.webhooks))]
    if wanted is None or wanted in names:
        return None
    hint = did_you_mean(wanted, names) if names else "there are none"
    return Mistake("webhook", f"there is no webhook {wanted!r}: {hint}")


def across_entries(
    config: ConfigFile, stored: StoredConfig, *, prune: bool
) -> Iterator[tuple[Kind, int | None, str, Mistake]]:
    """Yield the mistakes of entries that other entries make such."""
    if (mistake := _unknown_webhook(config, stored.config, prune=prune)) is not None:
        yield "audit_anchors", None, POLICY, mistake
    for at, name, own in _same_issuer(config, stored.config, prune=prune):
        yield "sign_in", at, name, own
    for at, name, own in _without_agent(config, stored, prune=prune):
        yield "schedule", at, name, own
    numbers = {entry.name: number for number, entry in enumerate(config.channels)}
    standing = [] if prune else [entry for entry in stored.config.channels if entry.name not in numbers]
    for name, own in same_accounts([*standing, *config.channels]):
        if name in numbers:
            yield "channel", numbers[name], name, own


def _without_agent(
    config: ConfigFile, stored: StoredConfig, *, prune: bool
) -> Iterator[tuple[int, str, Mistake]]:
    """Yield the schedules that name an agent that there will not be."""
    names = {spec.name for spec in (*config.agents, *(() if prune else stored.config.agents))}
    names |= {problem.name for problem in stored.problems if problem.kind == "agent"}
    for number, schedule in enumerate(config.schedules):
        if schedule.agent is not None and schedule.agent not in names:
            hint = did_you_mean(schedule.agent, names) if names else "there are none"
            yield number, schedule.name, Mistake("agent", f"there is no agent {schedule.agent!r}: {hint}")


def _same_issuer(
    config: ConfigFile, stored: ConfigFile, *, prune: bool
) -> Iterator[tuple[int, str, Mistake]]:
    """Yield the entries whose issuer another one has: the rules of one would undo those of the other."""
    names = {entry.name for entry in config.sign_in}
    standing = [] if prune else [entry for entry in stored.sign_in if entry.name not in names]
    known = {entry.issuer: entry.name for entry in standing}
    for number, entry in enumerate(config.sign_in):
        other = known.setdefault(entry.issuer, entry.name)
        if other != entry.name:
            yield (
                number,
                entry.name,
                Mistake("issuer", f"{other!r} has this issuer already: extend that entry"),
            )
    if (count := len(standing) + len(config.sign_in)) > MAX_PROVIDERS:
        text = f"there would be {count} entries of sign_in; at most {MAX_PROVIDERS} are possible"
        yield len(config.sign_in) - 1, config.sign_in[-1].name, Mistake("", text)


def same_accounts(entries: Iterable[ChannelEntry]) -> Iterator[tuple[str, Mistake]]:
    """Yield the channels, by name, that are connected to the account of another one, each with a warning."""
    before: list[ChannelEntry] = []
    for entry in sorted(entries, key=lambda one: one.name):
        if not entry.enabled or not entry.config:
            continue
        same = [one.name for one in before if (one.channel, one.config) == (entry.channel, entry.config)]
        if same:
            text = f"is that of channel {same[0]!r}: two of one account take events twice, or each takes some"
            yield entry.name, Mistake("config", text, "warning")
        before.append(entry)
