"""Every statement on tenant data names the workspace, or a key that is unique in the installation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostler
from hostler.storage.port import Query
from hostler.storage.sql.migrate import migrations_for
from hostler.storage.sql.statements import load

pytestmark = pytest.mark.gate("tenancy")

GLOBAL_KEYS = re.compile(
    r"\b(run_id|active_lane|lane|parent_run_id|key_hash|token_hash)\s*(=|>=|>|IN\b|\()", re.IGNORECASE
)
"""Ids given out by the host and random (run_id), digests that contain the workspace (lane), the hashes of
keys and sessions that themselves say which workspace they open."""
NO_TENANTS = {"hosts", "installation", "writers", "schema_versions", "blobs", "sign_ins", "sealing_keys"}
"""Blobs are content without an owner, reached through the artifacts of a workspace only. Keys of content are
reached by random ids, from what they sealed."""
INSTALLATION_WIDE = {
    "hash_chain.heads": "a host notes the ends of all hash chains",
    "deferred.claim": "the worker tries the events of every workspace again",
    "deferred.next_due": "the worker tries the events of every workspace again",
    "deferred.count_all": "a metric of the whole host",
    "widgets.find": "an entry of the installation says its workspace, which is compared in the code",
    "hosts.lost": "recovery looks at the runs of every workspace",
    "agents.all_versions": "secrets that are written out in any agent are sealed",
    "tokens.knows_origin": "a preflight names an origin and no key: whether any token is for it",
    "api_keys.remote_plugins": "a starting host waits for its remote plugins",
    "members.of_subject": "all workspaces of the person who signs in, by the provider's word",
    "members.invitations": "the same, by the address that the provider has verified",
    "notices.due": "the webhook sender serves the receivers of every workspace",
    "notices.next_due": "the webhook sender's alarm clock",
    "notices.overdue": "a collection gives up what waits for the webhook sender for too long",
    "schedules.due": "the worker fires the schedules of every workspace",
    "schedules.next_due": "its alarm clock",
    "push_receivers.due": "the push sender serves the receivers of every workspace",
    "pause_calls.changed": "the sweeper of pauses",
    "pause_calls.of_budgets": "the sweeper of pauses",
    "pauses.due": "the sweeper of pauses",
    "pauses.next_due": "the sweeper's alarm clock",
    "run_hosts.active": "recovery looks at the runs of every workspace",
    "run_hosts.active_of": "recovery looks at the runs of every workspace",
    "run_hosts.cancelled_of": "what a host has to cancel among its own",
    "run_claims.look": "the dispatcher reads all queues",
    "run_hosts.attempts_of": "a host looks for attempts of its own that it does not execute",
    "run_lanes.count_queued": "the bound of the queue",
    "knowledge_bases.every": "what each workspace is offered is read when the host starts",
    "knowledge_bases.removed": "the worker removes what is left of removed bases of every workspace",
    "knowledge_bases.to_cut_again": "the worker indexes documents of every workspace",
    "knowledge_documents.next_gone": "the worker removes what is left of documents of every workspace",
    "knowledge_documents.next_work": "the worker indexes documents of every workspace",
    "knowledge_documents.waits": "the worker indexes documents of every workspace",
    "knowledge_documents.removed": "the worker removes what is left of documents of every workspace",
    "knowledge_documents.release_own": "what an earlier process of this host was indexing",
    "knowledge_passages.having": "a token begins with the base that it is of",
    "knowledge_passages.merge": "upkeep of the text index",
    "quotas.totals": "the operator's metrics, and a look at workspaces that are nearly full",
    "search_index.insert": "the row of the text index that belongs to the row just written",
    "search_index.last_doc": "the next number in the text index, which is one for the installation",
    "search_index.merge": "upkeep of the text index",
    "secrets.key_uses": "the operator's list of master keys, and what is under each",
    "secrets.wrapped_by_others": "a new master key wraps the keys of all secrets",
    "timeline.skip": "a host that starts leaves out numbers that a power cut may have taken",
    "usage.open_runs": "the operator's metrics",
}
"""Statements that cross workspaces on purpose; none is reached by a caller's request."""


def statements() -> Iterator[Query]:
    for file in sorted(Path(hostler.__file__).parent.rglob("*.sql")):
        if file.parent.name != "migrations":
            yield from load(file)


def tenant_tables() -> set[str]:
    found = {
        name
        for dialect in ("sqlite", "postgres")
        for migration in migrations_for(dialect)
        for name in re.findall(r"CREATE (?:VIRTUAL )?TABLE (\w+)", migration.sql)
    }
    return found - NO_TENANTS


ALL = list(statements())
TENANT_TABLES = tenant_tables()


def names_its_workspace(text: str) -> bool:
    if re.search(r"\bworkspace_id\s*(=|>|IN\b)", text):
        return True
    return text.startswith("INSERT INTO") and "workspace_id" in text


@pytest.mark.parametrize("query", ALL, ids=[query.name for query in ALL])
def test_a_statement_names_its_workspace(query: Query) -> None:
    for text in {query.sqlite, query.postgres} - {""}:
        assert (
            names_its_workspace(text)
            or GLOBAL_KEYS.search(text)
            or query.name in INSTALLATION_WIDE
            or not TENANT_TABLES & set(re.findall(r"\w+", text))
        ), f"{query.name} reaches rows of any workspace:\n{text}"


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    unknown = INSTALLATION_WIDE.keys() - {query.name for query in ALL}
    assert not unknown
