"""The configuration file: what it takes, and how it says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hostler.host.config import ConfigFile, PluginEntry, Settings
from hostler.host.config_file import MAX_CONFIG_BYTES, load_config, parse_config, read_config
from hostler.host.host import Host
from hostler_protocol.errors import InvalidArgumentError

YAML = """
plugins:
  - ./echo
  - {path: ../other, network: ["api.example.com:443"]}
models:
  - {id: small, base_url: "http://localhost:1234/v1", price: {input: 1, output: 2.5}}
agents:
  - name: echo
    runner: plugin:acme/echo/default
    config: {suffix: "!"}
    filters: ['event.data.priority == "high"']
tools:
  - exec: {seconds: 5}
  - files: {}
working_folders: {per: run}
"""
TOML = """
[[plugins]]
path = "./echo"
[[plugins]]
path = "../other"
network = ["api.example.com:443"]
[[models]]
id = "small"
base_url = "http://localhost:1234/v1"
price = {input = 1, output = 2.5}
[[agents]]
name = "echo"
runner = "plugin:acme/echo/default"
config = {suffix = "!"}
filters = ['event.data.priority == "high"']
[[tools]]
[tools.exec]
seconds = 5
[[tools]]
[tools.files]
[working_folders]
per = "run"
"""

WRONG: dict[str, tuple[str, list[str]]] = {
    "a key at the top": ("agent: []", ["agent: unknown key", "'agents'"]),
    "a key of an agent": (
        "agents: [{name: a, runner: r, concurency: {}}]",
        ['agents[0] "a": concurency: unknown key', "'concurrency'"],
    ),
    "a key within": (
        "agents: [{name: a, runner: r, concurrency: {on_bussy: queue}}]",
        ["concurrency.on_bussy: unknown key", "'on_busy'"],
    ),
    "a word": (
        "agents: [{name: a, runner: r, concurrency: {on_busy: wait}}]",
        ["wait", "steer", "queue", "reject"],
    ),
    "a key of a model": ("models: [{id: m, base-url: x}]", ['models[0] "m": base-url', "'base_url'"]),
    "what is missing": ("agents: [{name: a}]", ["runner", "agents[0]"]),
    "nobody who could approve": (
        "agents: [{name: a, runner: r, resource_policy: {tool_approval: {t: {subjects: [admin]}}}}]",
        ["'admin'", "requester", "role:NAME", "tool_approval"],
    ),
    "more time to approve than there is": (
        "agents: [{name: a, runner: r, resource_policy: {tool_approval: {t: {expires_in: 5}}}}]",
        ["5 seconds", "1 minute to 30 days"],
    ),
    "a secret written out": (
        "webhooks: [{name: w, url: 'https://a.example/h', secret: hunter2}]",
        ['webhooks[0] "w": secret', "never written out"],
    ),
    "an address with a password": (
        "webhooks: [{name: w, url: 'https://u:p@a.example/h', secret: 'env:S'}]",
        ['webhooks[0] "w": url', "user name"],
    ),
    "an address that is none": ("webhooks: [{name: w, url: 'ftp://a', secret: 'env:S'}]", ["https://"]),
    "an event": (
        "webhooks: [{name: w, url: 'https://a', secret: 'env:S', events: [pause.open]}]",
        ["pause.open", "pause.opened"],
    ),
    "a type": ("agents: [{name: a, runner: r, priority: high}]", ["a whole number", "priority"]),
    "twice the same agent": ("agents: [{name: a, runner: r}, {name: a, runner: r}]", ["'a'", "twice"]),
    "twice the same model": ("models: [{id: m}, {id: m}]", ["'m'", "twice"]),
    "YAML": ("agents: [\n  {name: a", ["line 2"]),
    "a tool that is none": ("tools: [{exe: {}}]", ["tools[0]: exe: unknown key", "'exec'"]),
    "a key of a tool": ("tools: [{exec: {second: 5}}]", ["tools[0]: exec.second: unknown key", "'seconds'"]),
    "a key of a document": (
        "tools: [{openapi: {name: a, document: b, base_uri: x}}]",
        ['tools[0] "openapi:a": openapi.base_uri', "'base_url'"],
    ),
    "a key of fetch": ("tools: [{fetch: {networks: []}}]", ["tools[0]: fetch.networks", "'network'"]),
    "two tools in one entry": ("tools: [{exec: {}, files: {}}]", ["exec and files", "exactly one"]),
    "a tool that says nothing": ("tools: [{exec: null}]", ["nothing", "exactly one"]),
    "the name of a tool": ("tools: [{exec: {name: 'a b'}}]", ["'a b'", 'tools[0] "exec:a b": exec.name']),
    "twice the same tool": (
        "tools: [{exec: {}}, {exec: {}}]",
        ["tools[1]", "'exec:exec'", "twice", "tools[0]"],
    ),
    "a number of a tool": ("tools: [{exec: {seconds: 0}}]", ["seconds", "> 0"]),
    "working folders": ("working_folders: {disk: 1}", ["working_folders.disk: unknown key", "'disk_mib'"]),
    "cors": ("cors: {origin: []}", ["cors.origin: unknown key", "'origins'"]),
    "null as an origin": ("cors: {origins: ['null']}", ["cors.origins[0]", "any of them"]),
    "a pattern of origins": ("cors: {origins: ['https://*.a.example']}", ["cors.origins[0]", "no patterns"]),
    "a path after an origin": (
        "cors: {origins: ['https://a.example/x']}",
        ["cors.origins[0]", "without a path"],
    ),
    "a slash after an origin": ("cors: {origins: ['https://A.example/']}", ["send it: https://a.example"]),
    "the port that browsers leave out": ("cors: {origins: ['https://a.example:443']}", ["without :443"]),
    "a port beyond all": ("cors: {origins: ['https://a.example:70000']}", ["no port 70000"]),
    "a line in an origin": (
        'cors: {origins: ["https://a.example\\nx: y"]}',
        ["cors.origins[0]", "no origin"],
    ),
    "every origin and another": ("cors: {origins: ['*', 'https://a.example']}", ["leave out the others"]),
    "every origin in a private network": (
        "cors: {origins: ['*'], private_network: true}",
        ["cors.private_network", "every page of the internet"],
    ),
    "a list": ("- a", ["an object", "a list"]),
    "code": ("!!python/object/apply:os.system [ls]", ["python"]),
}


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    from_yaml = parse_config(YAML, name="c.yaml", base=tmp_path)
    assert from_yaml == parse_config(TOML, name="c.toml", base=tmp_path)
    assert from_yaml.agents[0].config == {"suffix": "!"}
    first, second = from_yaml.plugins
    assert isinstance(first, PluginEntry)
    assert isinstance(second, PluginEntry)
    assert (first.path, second.path) == (str(tmp_path / "echo"), str(tmp_path.parent / "other"))


def test_an_empty_file_is_a_configuration() -> None:
    assert parse_config("", name="c.yaml") == ConfigFile()


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(case: str) -> None:
    text, parts = WRONG[case]
    with pytest.raises(InvalidArgumentError) as refused:
        parse_config(text, name="c.yaml")
    message = refused.value.message
    assert message.startswith("c.yaml: ")
    assert [part for part in parts if part not in message] == [], message
    assert "\n" not in message


def test_a_key_that_stands_twice_is_a_mistake_and_not_the_last_one() -> None:
    text = "agents:\n  - name: a\n    runner: r\n    config: {x: 1}\n    config: {x: 2, x: 3}\nagents: []\n"
    with pytest.raises(InvalidArgumentError) as refused:
        parse_config(text, name="c.yaml")
    assert {f"{one['at']}: {one['expected']}" for one in refused.value.details["errors"]} == {
        "agents[0]: config: this key is used twice: in line 4 and in line 5",
        "agents[0]: config.x: this key is used twice: in line 5 and in line 5",
        "agents: this key is used twice: in line 1 and in line 6",
    }
    merged = "a: &one {name: a, runner: r}\nagents: [{<<: *one, name: b}]"
    assert [agent.name for agent in read_config(merged, name="c.yaml")[0].agents] == ["b"]


WITHOUT_JSON: dict[str, tuple[str, str]] = {
    "nan": (".nan", "x: this is no number that JSON has: write a finite one"),
    "infinity": ("-.inf", "x: this is no number that JSON has: write a finite one"),
    "deep within": ("[1, {y: [.inf]}]", "x[1].y[0]: this is no number that JSON has: write a finite one"),
    "a date": ("2024-01-01", "x: this is read as a date; put it in quotes"),
    "a time": ("2024-01-01T10:00:00Z", "x: this is read as a time; put it in quotes"),
    "bytes": ("!!binary aGk=", "x: this is read as bytes; write a text"),
    "a set": ("!!set {a, b}", "x: this is read as a set; write a list"),
    "a pair": ("!!omap [a: 1]", "x[0]: this is read as a pair; write a list"),
    "a number as a key": ("{1: 2}", "x.1: this key is no text; put it in quotes"),
    "true as a key": ("{yes: 2}", "x.True: this key is no text; put it in quotes"),
    "within itself": ("&x [*x]", "x: nested more than 128 deep"),
    "an alias of aliases": (
        "{a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a], "
        "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b], d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c], "
        "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d], f: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]}",
        "x: holds more than 150,000 values",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_JSON)
def test_values_that_json_does_not_have_are_mistakes_with_their_places(case: str) -> None:
    value, said = WITHOUT_JSON[case]
    agent = f"agents:\n- {{name: a, runner: r, config: {{x: {value}}}}}"
    with pytest.raises(InvalidArgumentError) as refused:
        parse_config(agent, name="c.yaml")
    (told,) = refused.value.details["errors"]
    assert (f"{told['at']}: {told['expected']}", told["line"]) == (f'agents[0] "a": config.{said}', 2)
    with pytest.raises(InvalidArgumentError) as refused:
        parse_config(f"models: [{{id: m, extra_args: {{x: {value}}}}}]", name="c.yaml")
    assert f'models[0] "m": extra_args.{said}' in refused.value.message


@pytest.mark.parametrize(
    ("text", "name", "places"),
    [
        (
            "models: [{id: m, timeout: .inf, price: {input: .nan}}]\n"
            "agents: [{name: a, runner: r, idle_timeout: .inf, priority: .nan,"
            " resource_policy: {rate: {calls_per_second: .inf}}}]\n"
            "tools: [{exec: {seconds: .nan}}]\n",
            "c.yaml",
            [
                "models[0].timeout",
                "models[0].price.input",
                "agents[0].idle_timeout",
                "agents[0].priority",
                "agents[0].resource_policy.rate.calls_per_second",
                "tools[0].exec.seconds",
            ],
        ),
        (
            '[[agents]]\nname="a"\nrunner="r"\nconfig={x=nan, y=2024-01-01, z=10:00:00}\nmetadata={m=inf}',
            "c.toml",
            ["agents[0].config.x", "agents[0].config.y", "agents[0].config.z", "agents[0].metadata.m"],
        ),
    ],
)
def test_numbers_that_are_none_are_refused_wherever_they_are(text: str, name: str, places: list[str]) -> None:
    _, source = read_config(text, name=name)
    assert [mistake.place for mistake in source.mistakes] == places


SECRET = "hunter2-secret"
TOLD_WITHOUT: dict[str, str] = {
    "a reference with blanks": f"models: [{{id: m, api_key: 'env: {SECRET}'}}]",
    "a reference with a value": f"models: [{{id: m, api_key: 'env:KEY={SECRET}'}}]",
    "a key in place of its name": f"models: [{{id: m, api_key: 'env:{SECRET}'}}]",
    "a file of no name": f'models: [{{id: m, api_key: "file:{SECRET}\\0"}}]',
    "a key with blanks": f"models: [{{id: m, api_key: 'sk {SECRET}'}}]",
    "a key of a wrong type": f"models: [{{id: m, api_key: [{SECRET}]}}]",
    "a key given twice": f"models: [{{id: m, api_key: {SECRET}, api_key: {SECRET}}}]",
    "a key in place of a model": f"models: [{SECRET}]",
    "a password in an address": f"models: [{{id: m, base_url: 'http://me:{SECRET}@host/v1'}}]",
    "a key of pauses": f"pause_key: [{SECRET}]",
    "a key of pauses with blanks": f"pause_key: ['env:x {SECRET}']",
    "keys of pauses in a list of lists": f"pause_key: [[{SECRET}]]",
    "a master key": f"master_key: [{SECRET}]",
    "a master key with blanks": f"master_key: ['env:x {SECRET}']",
    "an argument of a command": f"master_key: ['command:no-such-program {SECRET}']",
    "a command without its end": f"master_key: ['command:no-such-program \"{SECRET}']",
    "a secret of a webhook": f"webhooks: [{{name: w, url: 'https://a', secret: {SECRET}}}]",
    "an address of a webhook": f"webhooks: [{{name: w, url: 'https://u:{SECRET}@a', secret: 'env:S'}}]",
    "a token": f"tools: [{{mcp: {{name: m, url: 'https://a', token: {SECRET}}}}}]",
    "a token with blanks": f"tools: [{{mcp: {{name: m, url: 'https://a', token: 'env:a {SECRET}'}}}}]",
    "an alias that is none": f"models: [{{id: m, api_key: *{SECRET}}}]",
    "a tag that is none": f"models: [{{id: m, api_key: !{SECRET} x}}]",
    "a tag of YAML that is none": f"models: [{{id: m, api_key: !!{SECRET} x}}]",
    "a handle that is none": f"models: [{{id: m, api_key: !{SECRET}!x y}}]",
    "a number that is none": f"models: [{{id: m, api_key: !!int {SECRET}}}]",
    "a quote that does not end": f"models: [{{id: m, api_key: '{SECRET}",
}


@pytest.mark.parametrize("case", TOLD_WITHOUT)
async def test_no_mistake_shows_a_secret(tmp_path: Path, case: str) -> None:
    told: list[str] = []
    async with Host.open(Settings(data_dir=tmp_path, passive=True, shutdown_grace_seconds=0.0)) as host:
        try:
            config, source = read_config(TOLD_WITHOUT[case], name="c.yaml", base=tmp_path)
            diff = await host.apply(config, actor="t", dry_run=True, source=source)
            told.extend(problem.sentence for problem in diff.problems)
        except InvalidArgumentError as error:
            told.extend([error.message, repr(error.details)])
    assert all(SECRET not in one for one in told), told
    assert told or case == "a token with blanks"  # that one is told when the server is reached


@pytest.mark.parametrize("text", ["!!int x1", "!!float x1", "2001-99-99", "0b_"])
def test_a_value_that_is_not_what_it_looks_like_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^c\.yaml: line 2, column 14: "):
        parse_config(f"models:\n- {{id: m, x: {text}}}\n", name="c.yaml")


MANY_MISTAKES = """
plugin: []
plugins: [./echo, 5]
models: [{id: main, timout: 3}, {provider: openai}, {id: main}]
agents:
  - {name: first, runner: r, priority: high, config: {a: 1}}
  - {runner: r, concurency: {}}
  - name: support
    runner: r
    concurrency: {on_busy: stear, on_bussy: queue}
    resource_policy:
      tool_approval: {shop.book: sometimes, shop.find: {min_approvals: 0}, exec: required}
  - {name: support, runner: r}
tools: [{exec: {name: a b}}, {exe: {}}]
webhooks: [{name: w, url: "ftp://x", secret: "env:S"}, {name: v, url: "https://a", secret: "env:"}]
"""


MANY_TOLD = """
2 plugin: unknown key; did you mean 'plugins'?
3 plugins[1]: expected a text or an object, not a whole number
4 models[0] "main": timout: unknown key; did you mean 'timeout'?
4 models[1]: the key 'id' is missing
4 models[2] "main": 'main' is used twice: models[0] is the first
6 agents[0] "first": priority: expected a whole number, not a text
7 agents[1]: concurency: unknown key; did you mean 'concurrency'?
7 agents[1]: the key 'name' is missing
10 agents[2] "support": concurrency.on_busy: 'stear' is none of steer, queue, reject, interrupt, parallel; \
did you mean 'steer'?
10 agents[2] "support": concurrency.on_bussy: unknown key; did you mean 'on_busy'?
12 agents[2] "support": resource_policy.tool_approval["shop.book"]: 'sometimes' is none of never, required
12 agents[2] "support": resource_policy.tool_approval["shop.find"]: min_approvals is 0; 1 to 20 are possible
13 agents[3] "support": 'support' is used twice: agents[2] is the first
14 tools[1]: exe: unknown key; did you mean 'exec'?
14 tools[0] "exec:a b": exec.name: 'a b' is no name; expected a letter, then up to 31 letters, digits, _ or -
15 webhooks[0] "w": url: its url must begin with https:// or http://
15 webhooks[1] "v": secret: this names no environment variable: write env:NAME
"""


def test_all_mistakes_are_told_at_once_and_the_rest_is_read() -> None:
    config, source = read_config(MANY_MISTAKES, name="c.yaml")
    error = source.error()
    assert [
        f"{one['line']} {one['at']}: {one['expected']}" for one in error.details["errors"]
    ] == MANY_TOLD.splitlines()[1:]
    assert error.details["errors"][5]["field"] == "agents[0].priority"
    assert error.message.startswith("c.yaml: 17 mistakes: plugin: unknown key")
    assert error.message.endswith("(and 7 more)")
    assert [agent.name for agent in config.agents] == ["first", "support", "support"]
    assert [source.place("agents", number) for number in range(3)] == ["agents[0]", "agents[2]", "agents[3]"]
    assert config.agents[0].config == {"a": 1}
    assert config.agents[1].resource_policy.tool_approval == {"exec": "required"}


@given(
    name=st.text(st.characters(categories=["Ll"]), min_size=1, max_size=12),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_whatever_stands_there_is_taken_or_refused_in_words(name: str, value: Any) -> None:
    text = yaml.safe_dump({"agents": [{"name": "a", "runner": "r", name: value}]})
    try:
        parse_config(text, name="c.yaml")
    except InvalidArgumentError as error:
        assert error.message.startswith("c.yaml: ")  # noqa: PT017  (either way is right)


def test_a_configuration_that_was_exported_reads_back_the_same() -> None:
    config = parse_config(YAML, name="c.yaml")
    again = parse_config(yaml.safe_dump(msgspec.to_builtins(config)), name="again.yaml")
    assert again == config


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        load_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"agents: [{name: \xe9, runner: r}]")
    with pytest.raises(InvalidArgumentError, match="not a text in UTF-8"):
        load_config(tmp_path / "latin.yaml")
    with pytest.raises(InvalidArgumentError, match="larger than"):
        parse_config("#" * (MAX_CONFIG_BYTES + 1), name="c.yaml")
    (tmp_path / "bad.toml").write_text("agents = [")
    with pytest.raises(InvalidArgumentError, match=r"bad\.toml"):
        load_config(tmp_path / "bad.toml")


def test_where_the_facts_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_DATA", str(tmp_path / "mine"))
    assert Settings().database_url == str(tmp_path / "mine" / "hostler.db")
    assert Settings(data_dir=tmp_path, database="postgresql://x").database_url == "postgresql://x"


def test_a_document_is_found_beside_the_configuration_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "host.yaml"
    file.write_text(
        "tools: [{openapi: {name: a, document: api.yaml}}, {openapi: {name: b, document: 'https://x.example/y'}}]"
    )
    named, elsewhere = (entry.openapi for entry in load_config(file).tools)
    assert named is not None
    assert named.document == str(tmp_path.resolve() / "api.yaml")
    assert elsewhere is not None
    assert elsewhere.document == "https://x.example/y"
