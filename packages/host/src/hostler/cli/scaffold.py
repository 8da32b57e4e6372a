"""`hostler new runner NAME`: create a plugin folder that works at once, with a test."""

from __future__ import annotations

import getpass
import keyword
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hostler.cli.output import USAGE, fail
from hostler.cli.terminal import out


class NewGroup(TyperGroup):
    """`hostler new`, with a hint if the kind of plugin is missing."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. UsageError with the right form for `hostler new NAME`."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            kinds = " or ".join(f"`{ctx.command_path} {kind} {args[0]}`" for kind in self.commands)
            ctx.fail(f"say what to create: write {kinds}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=NewGroup, help="Create a plugin of your own: `hostler new runner NAME`.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    pass


_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,62}")
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_.-]+")

MANIFEST = """\
plugin: {{author: {author}, name: {name}, version: 0.1.0, label: {{en: {label}}}}}
runners:
  - {{name: default, entry: "{module}:{kind}"}}
# requires: ["httpx>=0.28"]        # what your code imports; installed in an environment for this plugin
"""

RUNNER = '''\
"""{label}."""

from collections.abc import AsyncIterator

from hostler_sdk import Result, RunContext, Runner, delta, message


class {kind}(Runner):
    """{label}

    Greets, and counts the messages of the conversation.
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
"""Tests the runner in memory, over the real protocol, without a host."""

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
hostler dev .                      # serve it to a running host, restarted at each change
python -m pytest                   # its test
hostler test .                     # the protocol's conformance tests
```

To serve it permanently, name the folder in a configuration file and `hostler apply` it:

```yaml
plugins: [./{folder}]
agents:
  - {{name: {name}, runner: "plugin:{author}/{name}/default"}}
```
"""


@app.command("runner")
def new_runner(
    name: Annotated[str, typer.Argument(help="Letters, digits, - and _. The folder has this name, too.")],
    author: Annotated[str | None, typer.Option("--author", help="Default: your login name.")] = None,
    folder: Annotated[Path | None, typer.Option("--into", metavar="DIR", help="Where to create it.")] = None,
) -> None:
    """Create a plugin folder with one runner and a test."""
    if not _NAME.fullmatch(name):
        fail(f"{name!r} is not a plugin name: write a letter, then up to 62 letters, digits, - and _", USAGE)
    target = (folder or Path()) / name
    if target.exists():
        fail(f"{target} already exists: choose another name", USAGE)
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
    files = {"hostler.yaml": MANIFEST, f"{module}.py": RUNNER, f"test_{module}.py": TEST, "README.md": README}
    try:
        target.mkdir(parents=True)
        for path, text in files.items():
            (target / path).write_text(text.format(**values), "utf-8")
    except OSError as error:
        fail(f"{target} cannot be written: {error.strerror}")
    _show_next_steps(target, module)


def _author(given: str | None) -> str:
    if given is not None:
        if _NOT_ALLOWED.search(given) or not given[:1].isalnum():
            fail(
                f"--author {given!r}: write letters, digits, '_', '.' and '-', a letter or digit first", USAGE
            )
        return given
    try:
        login = getpass.getuser()
    except (OSError, KeyError):
        login = ""
    plain = _NOT_ALLOWED.sub("-", login).strip("-._")
    return plain or "me"


def _show_next_steps(target: Path, module: str) -> None:
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
