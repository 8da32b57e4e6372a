"""Push notification configurations: where changes of a task are sent to, by the push sender of the host."""

from __future__ import annotations

from hostler.domain.webhooks import check_address
from hostler.http.a2a.dialect import PushConfigNotFoundError
from hostler.http.a2a.messages import MAX_ID_CHARS, wrong
from hostler.http.a2a.tasks import find_task
from hostler.http.a2a.wire import (
    Authentication,
    GivenPushConfig,
    ListPushConfigs,
    NamedPushConfig,
    PushConfig,
    PushConfigPage,
)
from hostler.http.auth import require_right
from hostler.http.request import ApiRequest
from hostler.storage.stores import push_receivers
from hostler.storage.stores.push_receivers import Receiver, StoredReceiver
from hostler_protocol.errors import InvalidArgumentError, NotFoundError

MAX_SECRET_CHARS = 4_000
MAX_PAGE_CONFIGS = push_receivers.MAX_RECEIVERS_OF_RUN


def check_config(given: GivenPushConfig) -> None:
    """Raise InvalidArgumentError for a configuration that cannot be used."""
    try:
        check_address("push", given.url)
    except InvalidArgumentError:
        raise wrong("url", "an address that begins with https:// or http://, without a user name") from None
    auth = given.authentication or Authentication()
    for name, value in (
        ("token", given.token),
        ("authentication.scheme", auth.scheme),
        ("authentication.credentials", auth.credentials),
    ):
        if value and (len(value) > MAX_SECRET_CHARS or not value.isascii() or not value.isprintable()):
            raise wrong(name, f"at most {MAX_SECRET_CHARS:,} printable ASCII characters")
    if given.id is not None and (len(given.id) > MAX_ID_CHARS or "\x00" in given.id):
        raise wrong("id", f"at most {MAX_ID_CHARS} characters, none of them NUL")


async def add_config(request: ApiRequest, agent: str, task_id: str, given: GivenPushConfig) -> PushConfig:
    """Store a configuration of a task, or change the one of its id; without an id it has that of the task."""
    require_right(request.caller, "events:write")
    check_config(given)
    run = await find_task(request, agent, task_id)
    auth = given.authentication or Authentication()
    receiver = Receiver(
        url=given.url,
        token=given.token or None,
        scheme=auth.scheme or None,
        credentials=auth.credentials or None,
    )
    own_id = given.id or run.run_id
    await request.state.host.db.write(
        lambda tx: push_receivers.put(tx, request.workspace_id, run.run_id, own_id, receiver)
    )
    return await get_config(request, agent, NamedPushConfig(task_id=run.run_id, id=own_id))


async def get_config(request: ApiRequest, agent: str, named: NamedPushConfig) -> PushConfig:
    """Return a configuration, without its credentials. PushConfigNotFoundError."""
    run = await find_task(request, agent, named.task_id)
    try:
        if "\x00" in named.id:
            raise PushConfigNotFoundError(named.id)
        return _config(
            await request.state.host.db.read(
                lambda tx: push_receivers.get(tx, request.workspace_id, run.run_id, named.id)
            )
        )
    except NotFoundError:
        raise PushConfigNotFoundError(named.id) from None


async def list_configs(request: ApiRequest, agent: str, wanted: ListPushConfigs) -> PushConfigPage:
    """Return configurations of a task, by id."""
    run = await find_task(request, agent, wanted.task_id)
    size = wanted.page_size or MAX_PAGE_CONFIGS
    after = wanted.page_token or ""
    if size < 0:
        raise wrong("pageSize", "a number, 1 or more")
    if "\x00" in after:
        raise wrong("pageToken", "the nextPageToken of the page before")
    size = min(size, MAX_PAGE_CONFIGS)
    found = await request.state.host.db.read(
        lambda tx: push_receivers.page(tx, request.workspace_id, run.run_id, after=after, limit=size + 1)
    )
    shown = found[:size]
    token = shown[-1].receiver_id if len(found) > size else ""
    return PushConfigPage(configs=[_config(one) for one in shown], next_page_token=token)


async def remove_config(request: ApiRequest, agent: str, named: NamedPushConfig) -> None:
    """Remove a configuration; one that is not there is no error, since the same may be asked twice."""
    require_right(request.caller, "events:write")
    run = await find_task(request, agent, named.task_id)
    if "\x00" not in named.id:
        await request.state.host.db.write(
            lambda tx: push_receivers.remove(tx, request.workspace_id, run.run_id, named.id)
        )


def _config(stored: StoredReceiver) -> PushConfig:
    receiver = stored.receiver
    auth = None if receiver.scheme is None else Authentication(scheme=receiver.scheme)
    return PushConfig(
        id=stored.receiver_id,
        task_id=stored.run_id,
        url=receiver.url,
        token=receiver.token,
        authentication=auth,
    )
