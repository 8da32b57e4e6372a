"""`hostler chat`: a conversation in the terminal, or with whatever is piped in."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hostler.cli.options import (
    ConversationOption,
    DataOption,
    KeyOption,
    ModelOption,
    SettingsOption,
    TargetArgument,
    UrlOption,
    data_directory,
)
from hostler.cli.output import errors_told

if TYPE_CHECKING:
    from hostler.cli.once import Wanted
    from hostler.cli.talk import Talk
    from hostler.cli.targets import Target


def chat(
    target: TargetArgument,
    conversation: ConversationOption = None,
    settings: SettingsOption = None,
    model: ModelOption = None,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Talk with an agent: it streams, takes what you say meanwhile, and asks before what needs a yes."""
    from hostler.cli.chat_session import converse
    from hostler.cli.loop_thread import Background
    from hostler.cli.once import Wanted
    from hostler.cli.run import parse_settings
    from hostler.cli.targets import read_target
    from hostler_protocol.ids import new_id

    wanted = Wanted(
        target=target,
        text="",
        as_json=False,
        conversation=conversation or new_id(),
        config=parse_settings(settings or []),
        model=model,
        config_file=None,
        data=data,
        url=url,
        key=key,
    )
    with errors_told():
        meant = read_target(target)
        with Background() as background:
            stack = AsyncExitStack()
            try:
                talk = background.run(_open(stack, wanted, meant, data_directory(data)))
                status = converse(background, talk, again=target)
            finally:
                background.run(stack.aclose())
    raise typer.Exit(status)


async def _open(stack: AsyncExitStack, wanted: Wanted, meant: Target, data_dir: Path) -> Talk:
    from hostler.cli.child_server import serving
    from hostler.cli.client import Api
    from hostler.cli.remote import agent_on_server
    from hostler.cli.server_address import find_server
    from hostler.cli.talk import Talk

    address = find_server(wanted.url, wanted.key, data_dir)
    if address is None:
        address = (await stack.enter_async_context(serving(data_dir))).address
    api = Api.at(address.url, address.key)
    stack.push_async_callback(api.close)
    name = await stack.enter_async_context(agent_on_server(api, wanted, meant, data_dir))
    return Talk(api, name, wanted.conversation)
