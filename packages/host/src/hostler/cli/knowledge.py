"""`hostler knowledge`: knowledge bases, their documents, and searches in them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import FieldsArgument, merged, parse_fields
from hostler.cli.options import JsonOption, LimitOption
from hostler.cli.output import FAILED, USAGE, fail, note, show_error, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import moment, write_done, write_fields, write_indented, write_items, write_record
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api
    from hostler.cli.knowledge_upload import Uploaded

app = typer.Typer(
    help="Knowledge bases: add, list, show, set, remove; their documents: upload, documents, read, reindex, "
    "delete; search.",
    no_args_is_help=True,
)
BaseArgument = Annotated[str, typer.Argument(metavar="BASE", help="The knowledge base's id.")]
DocumentArgument = Annotated[str, typer.Argument(metavar="DOCUMENT", help="The document's name.")]
NameOption = Annotated[str | None, typer.Option("--name", help="What people call it.")]
DescriptionOption = Annotated[str | None, typer.Option("--description", help="What is in it.")]
EXAMPLE = "like passage_chars=600"
SCORE_CHARS = 4
STATES = ("waiting", "indexing", "ready", "failed")


@app.command("list")
@server_command
def list_bases(server: Server, limit: LimitOption = 100, as_json: JsonOption = False) -> None:
    """List the knowledge bases, and how many documents each has."""
    write_items(
        server.items("/v1/knowledge", limit=limit),
        {
            "base": "kb_id",
            "name": "name",
            "documents": "documents",
            "state": _counts,
            "passages": "passages",
            "bytes": "size_bytes",
            "changed": lambda one: moment(one["changed_at"]),
        },
        as_json=as_json,
        none="no knowledge bases: `hostler knowledge add BASE` makes one",
        spare=("changed", "bytes"),
    )


@app.command("show")
@server_command
def show_base(server: Server, base: BaseArgument, as_json: JsonOption = False) -> None:
    """Show one knowledge base."""
    write_record(server.get(route("knowledge", base)), _show, as_json=as_json)


@app.command("add")
@server_command
def add_base(
    server: Server,
    base: BaseArgument,
    name: NameOption = None,
    description: DescriptionOption = None,
    fields: FieldsArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Add a knowledge base. Further fields are written as FIELD=VALUE, like passage_chars=600."""
    body = {"kb_id": base, **merged({}, _fields(name, description, fields))}
    write_record(server.ask(lambda api: api.post("/v1/knowledge", body)), _show, as_json=as_json)


@app.command("set")
@server_command
def set_base(
    server: Server,
    base: BaseArgument,
    name: NameOption = None,
    description: DescriptionOption = None,
    fields: FieldsArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Change fields of a knowledge base. Another passage_chars has all its documents indexed again."""
    given = _fields(name, description, fields)
    if not given:
        fail(f"name what to change, with --name, --description or FIELD=VALUE, {EXAMPLE}", USAGE)

    async def change(api: Api) -> Any:
        found = await api.get(route("knowledge", base))
        known = {field: found[field] for field in ("kb_id", "name", "description", "passage_chars")}
        return await api.put(route("knowledge", base), merged(known, given))

    write_record(server.ask(change), _show, as_json=as_json)


@app.command("remove")
@server_command
def remove_base(server: Server, base: BaseArgument, as_json: JsonOption = False) -> None:
    """Remove a knowledge base with all its documents."""
    server.ask(lambda api: api.delete(route("knowledge", base)))
    write_done({"kb_id": base}, f"{base} is removed, with its documents", as_json=as_json)


@app.command("documents")
@server_command
def list_documents(
    server: Server,
    base: BaseArgument,
    state: Annotated[
        str | None, typer.Option("--state", help="Only those that are waiting, indexing, ready or failed.")
    ] = None,
    limit: LimitOption = 100,
    as_json: JsonOption = False,
) -> None:
    """List the documents of a knowledge base, and how far each is indexed."""
    if state is not None and state not in STATES:
        fail(f"--state: {state!r} is no state of a document: give one of {', '.join(STATES)}", USAGE)
    found = server.items(route("knowledge", base, "documents"), limit=limit, state=state)
    none = f"no documents: `hostler knowledge upload {base} FILE` adds one"
    _write_documents(found, none if state is None else f"no document is {state}", as_json=as_json)


@app.command("upload")
@server_command
def upload(
    server: Server,
    base: BaseArgument,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE|FOLDER...", help="Files and folders; - reads stdin, with --name."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="The document's name: by default that of the file.")
    ] = None,
    media_type: Annotated[
        str | None, typer.Option("--type", help="Its media type: by default the one of the name's ending.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", "-m", metavar="KEY=VALUE", help="A note to filter by; repeat it."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until all of them can be found, or cannot be read.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Upload documents. One of the same name is replaced; in a folder the path is the name.

    The status is 1 if one of them was refused, or with --wait could not be read.
    """
    from hostler.cli.knowledge_upload import Upload, sources, upload_all

    notes = parse_fields(metadata, "like lang=en")
    kept = Upload(base, media_type, notes, wait=wait, shown=not as_json)
    found = sources(paths, name)
    done = server.ask(lambda api: upload_all(api, kept, found), running=wait)
    if as_json:
        write_json([one.record for one in done if one.record is not None])
    elif any(one.record is not None for one in done):
        _write_documents([one.record for one in done if one.record is not None], "", as_json=False)
    _end(base, done, waited=wait)


@app.command("read")
@server_command
def read_document(server: Server, base: BaseArgument, document: DocumentArgument) -> None:
    """Write the content of a document to standard output, as it was uploaded."""
    content = server.ask(lambda api: api.content(route("knowledge", base, "documents", document, "content")))
    if sys.stdout.isatty():
        out().print(content.decode("utf-8", "replace"), markup=False, end="")
        return
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as whole:
        whole.write(content)


@app.command("reindex")
@server_command
def reindex_document(
    server: Server, base: BaseArgument, document: DocumentArgument, as_json: JsonOption = False
) -> None:
    """Index a document once more, such as one that failed."""
    record = server.ask(lambda api: api.post(route("knowledge", base, "documents", document, "reindex")))
    write_done(record, f"{document} is indexed again", as_json=as_json)


@app.command("delete")
@server_command
def delete_documents(
    server: Server,
    base: BaseArgument,
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Names of documents.")],
    as_json: JsonOption = False,
) -> None:
    """Delete documents: they are found no more, and their content is removed."""

    async def delete(api: Api) -> None:
        for name in documents:
            await api.delete(route("knowledge", base, "documents", name))

    server.ask(delete)
    write_done(
        [{"kb_id": base, "name": name} for name in documents],
        f"deleted from {base}: {', '.join(documents)}",
        as_json=as_json,
    )


@app.command("search")
@server_command
def search(
    server: Server,
    base: BaseArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    top_k: Annotated[int, typer.Option("--top", "-k", min=1, max=50, help="The most passages.")] = 5,
    document: Annotated[
        list[str] | None, typer.Option("--document", "-d", help="Only in this document; repeat it.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", "-f", metavar="KEY=VALUE", help="Only where this was noted; repeat it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Search a knowledge base as a run does: passages with their scores, best first."""
    given = {**parse_fields(filters, "like lang=en"), **({"document": document} if document else {})}
    body = {"query": query, "top_k": top_k, "filters": given or None}
    items = server.ask(lambda api: api.post(route("knowledge", base, "search"), body))["items"]
    if as_json:
        write_json(items)
    elif not items:
        note(f"nothing was found in {base}")
    for place, item in enumerate([] if as_json else items):
        if place:
            out().print()
        _show_passage(item)


def _fields(name: str | None, description: str | None, fields: list[str] | None) -> dict[str, Any]:
    named = {"name": name, "description": description}
    given = {field: value for field, value in named.items() if value is not None}
    return {**given, **parse_fields(fields, EXAMPLE)}


def _counts(base: dict[str, Any]) -> str:
    told = [f"{base[state]} {state}" for state in ("failed", "indexing", "waiting") if base[state]]
    return ", ".join(told) or ("ready" if base["documents"] else "")


def _show(base: dict[str, Any]) -> None:
    write_fields(
        (
            ("base", base["kb_id"]),
            ("name", base["name"]),
            ("description", base["description"]),
            ("kept by", None if base["kept_by"] == "host" else base["kept_by"]),
            ("documents", base["documents"]),
            ("state", _counts(base)),
            ("passages", base["passages"]),
            ("bytes", base["size_bytes"]),
            ("passage_chars", base["passage_chars"]),
            ("made by", base["made_by"]),
            ("changed", moment(base["changed_at"])),
        )
    )


def _write_documents(found: list[dict[str, Any]], none: str, *, as_json: bool) -> None:
    write_items(
        found,
        {
            "document": "name",
            "state": "state",
            "passages": _passages,
            "bytes": "size_bytes",
            "type": "mime_type",
            "changed": lambda one: moment(one["changed_at"]),
            "reason": "reason",
        },
        as_json=as_json,
        none=none,
        spare=("changed", "type"),
    )


def _passages(one: dict[str, Any]) -> str:
    if one["passages_total"] is None:
        return ""
    if one["state"] == "ready":
        return str(one["passages_total"])
    return f"{one['passages_done']} of {one['passages_total']}"


def _show_passage(item: dict[str, Any]) -> None:
    about = item["metadata"]
    place = [about.get("source"), about.get("heading")]
    if about.get("passages"):
        place.append(f"passage {about['passage']} of {about['passages']}")
    score = item["score"]
    head = [(SCORE_CHARS * " " if score is None else f"{score:.2f}", "green"), ("  ", "")]
    write_indented(head, " · ".join(str(part) for part in place if part))
    write_indented([((SCORE_CHARS + 2) * " ", "")], item["content"])


def _end(base: str, done: list[Uploaded], *, waited: bool) -> None:
    """Say what was refused and what is still to come, and end with the status."""
    refused = [one for one in done if one.error is not None]
    for one in refused:
        show_error(f"{one.name}: {one.error}")
    failed = [one for one in done if one.record is not None and one.record["state"] == "failed"]
    if not waited and any(one.record is not None and one.record["state"] == "waiting" for one in done):
        note(f"the server indexes them: `hostler knowledge documents {base}` says how far it is")
    if refused or (waited and failed):
        raise typer.Exit(FAILED)
