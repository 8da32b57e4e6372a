"""The store: items of clients by namespace and key. It is of the clients alone: no run sees it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from hostler.domain.quotas import quotas_of
from hostler.http.langgraph.assistants import slice_of
from hostler.http.langgraph.conditions import check_conditions
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.threads import moment
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json
from hostler.storage.port import Tx
from hostler.storage.stores import client_items
from hostler.storage.stores.client_items import Item
from hostler_protocol._base import Lenient

MAX_SEARCHED = 1_000
"""Items that a search with a filter looks at, latest change first."""
STEP = 100
"""Items that are read at once."""
MAX_PAGE_BYTES = 8 * 1024 * 1024
"""JSON of one answer, as far as it has more than one item."""


class ItemPut(Lenient):
    """An item. `index` is not looked at: items are not searched by meaning."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    index: Any = None
    ttl: Any = None


class ItemQuery(Lenient):
    """`namespace`: its labels, joined by periods, or one by one."""

    key: str
    namespace: list[str] = []
    refresh_ttl: str | None = None


class ItemNamed(Lenient):
    """An item to delete."""

    namespace: list[str]
    key: str


class ItemsWanted(Lenient):
    """Which items are wanted. `filter`: members of their values, each a value or an object of operators."""

    namespace_prefix: list[str] | None = None
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespacesWanted(Lenient):
    """Which namespaces are wanted. `*` in `prefix` and `suffix` stands for any label."""

    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@route("PUT", "/store/items", "conversations:write")
async def put_store_item(request: ApiRequest, body: ItemPut) -> Empty:
    """Write an item."""
    if body.ttl is not None:
        raise refused("ttl", "items stay until they are deleted")
    host, workspace = request.state.host, request.workspace_id
    bounds = quotas_of(host.allowances.of(workspace).quota)
    await host.db.write(
        lambda tx: client_items.put(tx, workspace, body.namespace, body.key, body.value, bounds=bounds)
    )
    return Empty()


@route("GET", "/store/items", "conversations:read")
async def get_store_item(request: ApiRequest, query: ItemQuery) -> Json[dict[str, Any] | None]:
    """Get an item; null if there is none."""
    workspace = request.workspace_id
    namespace = [label for labels in query.namespace for label in labels.split(".")]
    found = await request.state.host.db.read(lambda tx: client_items.get(tx, workspace, namespace, query.key))
    return Json(None if found is None else _record(found))


@route("DELETE", "/store/items", "conversations:write")
async def delete_store_item(request: ApiRequest, body: ItemNamed) -> Empty:
    """Delete an item; nothing happens if there is none."""
    workspace = request.workspace_id
    await request.state.host.db.write(lambda tx: client_items.delete(tx, workspace, body.namespace, body.key))
    return Empty()


@route("POST", "/store/items/search", "conversations:read")
async def search_store_items(request: ApiRequest, body: ItemsWanted) -> Json[dict[str, Any]]:
    """List items of namespaces that begin with these labels, latest change first.

    A filter looks at the newest 1,000 of them.
    """
    if body.query:
        raise refused("query", "items are found by namespace and filter; knowledge bases search by meaning")
    part = slice_of(body.offset, body.limit)
    wanted = check_conditions("filter", body.filter)
    _check_filter(wanted)
    read = partial(_search, ws=request.workspace_id, prefix=body.namespace_prefix or [])
    found: list[Item] = []
    if not wanted:
        found = await request.state.host.db.read(
            lambda tx: read(tx, offset=part.start, limit=part.stop - part.start)
        )
    else:
        for offset in range(0, MAX_SEARCHED, STEP):
            fitting, is_last = await request.state.host.db.read(
                lambda tx, offset=offset: _fitting(read(tx, offset=offset, limit=STEP), wanted)  # type: ignore[misc]
            )
            found += fitting
            if is_last or len(found) >= part.stop:
                break
        found = found[part]
    return Json({"items": _within(found)})


@route("POST", "/store/namespaces", "conversations:read")
async def list_store_namespaces(request: ApiRequest, body: NamespacesWanted) -> Json[dict[str, Any]]:
    """List the namespaces that have items, of the first 10,000 of them."""
    part = slice_of(body.offset, body.limit)
    if body.max_depth is not None and body.max_depth < 1:
        raise wrong("max_depth", "1 or more")
    prefix, suffix = body.prefix or [], body.suffix or []
    literal = prefix[: prefix.index("*")] if "*" in prefix else prefix
    for labels in (prefix, suffix):
        client_items.check_namespace(labels)
    found = await request.state.host.db.read(
        lambda tx: client_items.namespaces(tx, request.workspace_id, literal)
    )
    fitting = [one for one in found if _fits(one[: len(prefix)], prefix) and _ends(one, suffix)]
    return Json({"namespaces": list(dict.fromkeys(one[: body.max_depth] for one in fitting))[part]})


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the members of a value are as a filter says."""
    return all(_as_wanted(value.get(name), one) for name, one in wanted.items())


def _as_wanted(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if any(name.startswith("$") for name in wanted):
        return all(_compares(value, name, other) for name, other in wanted.items())
    return isinstance(value, Mapping) and matches(value, wanted)


_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS = ("$eq", "$ne", *_ORDERS)


def _compares(value: Any, name: str, other: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == other) == (name == "$eq")
    alike = any(isinstance(value, kind) and isinstance(other, kind) for kind in (int | float, str))
    return alike and bool(_ORDERS[name](value, other))


def _check_filter(wanted: Any) -> None:
    """Raise InvalidArgumentError for an operator that there is not."""
    if not isinstance(wanted, Mapping):
        return
    for name, inner in wanted.items():
        if name.startswith("$") and name not in _OPERATORS:
            raise wrong("filter", f"one of the operators {', '.join(_OPERATORS)}, not {name[:40]!r}")
        _check_filter(inner)


def _fits(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(labels) == len(pattern) and all(
        wanted in ("*", label) for label, wanted in zip(labels, pattern, strict=True)
    )


def _ends(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return not pattern or _fits(labels[-len(pattern) :], pattern)


def _search(tx: Tx, *, ws: str, prefix: Sequence[str], offset: int, limit: int) -> list[Item]:
    return client_items.page(tx, ws, prefix, offset=offset, limit=limit)


def _fitting(items: Sequence[Item], wanted: Mapping[str, Any]) -> tuple[list[Item], bool]:
    """Return the items of a step that are as a filter says, and whether no others follow.

    They are compared in a thread of the database, not on the loop.
    """
    return [item for item in items if matches(item.value, wanted)], len(items) < STEP


def _within(found: Sequence[Item]) -> list[msgspec.Raw]:
    """Return items as their clients read them, as far as they fit into one answer."""
    records: list[msgspec.Raw] = []
    room = MAX_PAGE_BYTES
    for item in found:
        encoded = msgspec.json.encode({**_record(item), "score": None})
        room -= len(encoded)
        if room < 0 and records:
            break
        records.append(msgspec.Raw(encoded))
    return records


def _record(item: Item) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": moment(item.created_at),
        "updated_at": moment(item.updated_at),
    }
