"""`hostler chat`: a conversation in the terminal, or with messages from a pipe."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
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
from hostler.cli.output import report_errors

if TYPE_CHECKING:
    from hostler.cli.talk import Talk


def chat(
    target: TargetArgument,
    conversation: ConversationOption = None,
    settings: SettingsOption = None,
    model: ModelOption = None,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Chat with an agent: answers stream, you can write meanwhile, and you approve or deny its calls."""
    from hostler.cli.chat_session import converse
    from hostler.cli.child_server import serving
    from hostler.cli.client import Api
    from hostler.cli.loop_thread import Background
    from hostler.cli.remote_plugin import serve_plugin
    from hostler.cli.run import parse_settings
    from hostler.cli.server_address import find_server
    from hostler.cli.talk import Talk
    from hostler.cli.target_agent import target_agent
    from hostler.cli.targets import read_target
    from hostler_protocol.ids import new_id

    config = parse_settings(settings or [])

    async def open_talk(stack: AsyncExitStack) -> Talk:
        data_dir = data_directory(data)
        address = find_server(url, key, data_dir)
        if address is None:
            address = (await stack.enter_async_context(serving(data_dir))).address
        api = Api.at(address.url, address.key)
        stack.push_async_callback(api.close)
        serve = partial(serve_plugin, api, data_dir=data_dir)
        agent = target_agent(api, meant, serve, config=config, model=model, keep=True)
        return Talk(api, await stack.enter_async_context(agent), conversation or new_id())

    with report_errors():
        meant = read_target(target)
        with Background() as background:
            stack = AsyncExitStack()
            try:
                talk = background.run(open_talk(stack))
                status = converse(background, talk, again=target)
            finally:
                background.run(stack.aclose())
    raise typer.Exit(status)
