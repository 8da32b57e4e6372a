"""`hostler conversations`: what was said, its titles, forks, search in all of it, and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_items

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Conversations: list, search, rename, fork, delete.", no_args_is_help=True)
ConversationArgument = Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation's id.")]
_EXCERPT_CHARS = 60


@app.command("list")
@server_command
def list_conversations(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List conversations by their latest message, newest first."""
    write_items(
        server.items("/v1/conversations", limit=limit),
        {
            "conversation": "conversation_id",
            "title": "title",
            "latest message": lambda one: _excerpt(one["latest_content"]),
            "at": lambda one: moment(one["latest_at"]),
        },
        as_json=as_json,
        none="no conversations yet: `hostler chat AGENT` begins one",
        spare=("title",),
    )


@app.command("search")
@server_command
def search_conversations(
    server: Server,
    words: Annotated[str, typer.Argument(help="Words, all of which a message has to contain.")],
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Search the messages of all conversations, newest first."""
    found = server.ask(lambda api: api.get("/v1/search", q=words, limit=limit))
    write_items(
        found["items"],
        {
            "conversation": "conversation_id",
            "by": "role",
            "message": lambda one: _excerpt(one["content"]),
            "at": lambda one: moment(one["created_at"]),
        },
        as_json=as_json,
        none="no message contains that",
    )


@app.command("rename")
@server_command
def rename_conversation(
    server: Server,
    conversation: ConversationArgument,
    title: Annotated[str, typer.Argument(help="The title; an empty one takes it away.")],
    as_json: JsonOption = False,
) -> None:
    """Name a conversation."""
    path = f"{route('conversations', conversation)}/title"
    found = server.ask(lambda api: api.put(path, {"title": title or None}))
    named = f"is named {found['title']!r}" if found["title"] else "has no title"
    write_done(found, f"conversation {conversation} {named}", as_json=as_json)


@app.command("fork")
@server_command
def fork_conversation(
    server: Server,
    conversation: ConversationArgument,
    at: Annotated[
        str | None, typer.Option("--at", help="The cursor of the last message to copy. Default: all.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="The title of the new conversation.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a new conversation with copies of the messages of another."""

    async def fork(api: Api) -> dict[str, Any]:
        body = {"at": at, "title": title}
        found: dict[str, Any] = await api.post(f"{route('conversations', conversation)}/fork", body)
        return found

    made = server.ask(fork)
    older = "; older ones were left out" if made["omitted"] else ""
    text = f"conversation {made['conversation_id']} begins with {made['messages']} messages{older}"
    write_done(made, text, as_json=as_json)


@app.command("delete")
@server_command
def delete_conversation(
    server: Server,
    conversation: ConversationArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete all data of a conversation; print the receipt."""
    if not yes:
        typer.confirm(f"Delete all data of conversation {conversation}, for good?", abort=True)
    receipt = server.ask(lambda api: api.delete(route("conversations", conversation)))
    write_done(receipt, f"conversation {conversation} is deleted", as_json=as_json)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT_CHARS else f"{line[: _EXCERPT_CHARS - 1]}…"
