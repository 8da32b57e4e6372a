"""`hostler new runner NAME`: a plugin folder that runs at once, with a test."""

from __future__ import annotations

import getpass
import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import USAGE, fail, out

app = typer.Typer(help="Start something of your own.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,62}")
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_.-]+")

MANIFEST = """\
plugin: {{author: {author}, name: {name}, version: 0.1.0, label: {{en: {label}}}}}
runners:
  - {{name: default, entry: "{module}:{kind}"}}
# requires: ["httpx>=0.28"]        # what your code imports; the host builds an environment of its own for it
"""

RUNNER = '''\
"""{label}."""

from collections.abc import AsyncIterator

from hostler_sdk import Result, RunContext, Runner, delta, message


class {kind}(Runner):
    """{label}

    Greets by name, and counts how often it was spoken to in this conversation.
    """

    capabilities = {{"streaming"}}
    config = [
        {{"name": "greeting", "type": "string", "default": "Hello", "label": {{"en": "Greeting"}}}},
    ]

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Answer one message."""
        turn = (await ctx.states.get("conversation", "turns") or 0) + 1
        await ctx.states.set("conversation", "turns", turn)
        answer = f"{{ctx.config['greeting']}}! You said {{ctx.input.text!r}} in turn {{turn}} of our talk."
        for word in answer.split():
            yield delta(word + " ")
        yield message(answer)
'''

TEST = '''\
"""Drives the runner in memory, over the real protocol: no host needed."""

import sys
from pathlib import Path

from hostler_sdk.testing import ScriptedHost

sys.path.insert(0, str(Path(__file__).parent))

from {module} import {kind}  # noqa: E402


def test_it_greets_and_counts_turns():
    host = ScriptedHost()
    context = {{"conversation": {{"conversation_id": "c1"}}}}
    first = host.drive_sync({kind}, "hi", config={{"greeting": "Hey"}}, context=context)
    assert first.status == "completed"
    assert first.text == "Hey! You said 'hi' in turn 1 of our talk."
    assert "in turn 2" in host.drive_sync({kind}, "again", context=context).text
'''

README = """\
# {label}

```
hostler run . "hello"              # one run
hostler chat .                     # a conversation
hostler dev .                      # served to a running host, started anew at each change
python -m pytest                   # its test
hostler test .                     # does it speak the protocol?
```

To serve it for good, name the folder in a configuration and `hostler apply` it:

```yaml
plugins: [./{folder}]
agents:
  - {{name: {name}, runner: "plugin:{author}/{name}/default"}}
```
"""


@app.command("runner")
def new_runner(
    name: Annotated[str, typer.Argument(help="Letters, digits, - and _; also the folder's name.")],
    author: Annotated[str | None, typer.Option("--author", help="Whose plugin it is; default: you.")] = None,
    folder: Annotated[Path | None, typer.Option("--into", metavar="DIR", help="Where to make it.")] = None,
) -> None:
    """Make a plugin folder with one runner and a test."""
    if not _NAME.fullmatch(name):
        fail(f"{name!r} is no name for a plugin: a letter, then letters, digits, - and _, 63 at most", USAGE)
    target = (folder or Path()) / name
    if target.exists():
        fail(f"{target} exists already: choose another name", USAGE)
    words = re.split(r"[-_]+", name.strip("-_"))
    module = "_".join(word.lower() for word in words if word)
    if keyword.iskeyword(module):
        module += "_runner"
    values = {
        "name": name,
        "author": _author(author),
        "module": module,
        "kind": "".join(word[:1].upper() + word[1:] for word in words if word),
        "label": " ".join(words).strip().capitalize(),
        "folder": target.name,
    }
    files = {
        "hostler.yaml": MANIFEST,
        f"{module}.py": RUNNER,
        f"test_{module}.py": TEST,
        "README.md": README,
    }
    try:
        target.mkdir(parents=True)
        for path, text in files.items():
            (target / path).write_text(text.format(**values), "utf-8")
    except OSError as error:
        fail(f"{target} cannot be written: {error.strerror}")
    _say(target, module)


def _author(given: str | None) -> str:
    if given is not None:
        if _NOT_ALLOWED.search(given) or not given[:1].isalnum():
            fail(f"--author {given!r}: letters, digits, '_', '.' and '-' only", USAGE)
        return given
    try:
        login = getpass.getuser()
    except (OSError, KeyError):
        login = ""
    plain = _NOT_ALLOWED.sub("-", login).strip("-._")
    return plain or "me"


def _say(target: Path, module: str) -> None:
    from rich.text import Text

    out().print(Text.assemble(("✓ ", "green"), f"{target}/ with {module}.py, its test and hostler.yaml"))
    out().print()
    for command in (
        f'hostler run ./{target} "hello"',
        f"python -m pytest {target}",
        f"hostler test {target}",
    ):
        shown = command.replace(".//", "/")
        out().print(Text(f"  {shown}", "cyan"), soft_wrap=True)
