"""Documents of every kind: large, deep, circular, odd, and wrong on purpose. Nothing hangs, all is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.openapi_entry import OpenApiEntry, check_openapi_entry
from hostler.tools.openapi.document import DocumentError, read_document
from hostler.tools.openapi.limits import (
    MAX_DESCRIPTION_CHARS,
    MAX_DOCUMENT_BYTES,
    MAX_OPERATIONS,
    MAX_PARAMETERS,
    MAX_PROBLEMS,
    MAX_TOOLS,
    MAX_YAML_BYTES,
)
from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError
from support.openapi_documents import ENTRY, OK, body, document, only, read

pytestmark = pytest.mark.gate("openapi-bounds")

# -- reading --------------------------------------------------------------------------------------


def test_json_and_yaml_give_the_same() -> None:
    yaml = b"""
openapi: 3.1.0
info: {title: t, version: "1"}
paths:
  /on:
    get:
      operationId: yes
      parameters:
        - {name: no, in: query, schema: {type: string, enum: [on, 2020-01-01, 0o17, 1_000], default: ~}}
      responses: {200: {description: fine}}
"""
    found = only(read(yaml))
    assert found.name == "yes"
    assert found.parameters["no"].schema == {
        "type": "string",
        "enum": ["on", "2020-01-01", "0o17", "1_000"],
        "default": None,
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no mapping"),
        (b"[]", "no mapping"),
        (b"\xff\xfe\0", "."),
        (b"{", "."),
        (b"a: [", "no YAML at line"),
        (b"a: b: c", "no YAML at line"),
        (b"!!python/object/apply:os.system [ls]", "no YAML"),
        (b"a: !!timestamp 2020-01-01", "no YAML"),
        (b"swagger: '2.0'", "version '2.0'; 3.0 and 3.1"),
        (b"openapi: 3.2.0", "3.0 and 3.1"),
        (b"openapi: 3", "3.0 and 3.1"),
        (b"openapi: 3.0.0\npaths: []", "paths"),
        (b"[" * 3_000_000, "deep"),
        (b"{" + b'"a":{' * 100_000, "."),
        (b"x: " + b"[" * 200 + b"]" * 200, "deep"),
        (b'{"a":' * 150 + b"1" + b"}" * 150, "deep"),
        (b"a: &a [*a]", "deep|no YAML"),
        (b"a: " + b"x" * (MAX_YAML_BYTES + 1), "as YAML"),
        (b"{" + b" " * MAX_DOCUMENT_BYTES, "bytes"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_no_document_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        read_document(data)


def test_aliases_that_repeat_each_other_a_billion_times_are_refused() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(DocumentError, match="values"):
        read_document("\n".join(["openapi: 3.0.0", *levels]).encode())


def test_merge_keys_are_plain_keys() -> None:
    assert read_document(b"openapi: 3.0.0\nx: {<<: {a: 1}}").root["x"] == {"<<": {"a": 1}}


# -- names and descriptions -----------------------------------------------------------------------


def test_names_are_valid_and_each_is_given_once() -> None:
    ids = [
        "same",
        "same",
        "same",
        "a b/c",
        "a.b.c",
        "ünïcödé",
        "",
        "9lives",
        "x" * 200,
        "x" * 200,
        "__",
        "$$",
        None,
        5,
    ]
    paths = {f"/p{n}/{{id}}": {"get": {**OK, "operationId": name}} for n, name in enumerate(ids)}
    for item in paths.values():
        item["get"]["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {}}]
    found = read(document(paths))
    assert dict(found.problems) == {}
    assert len(found.usable) == len(ids)
    for name in found.usable:
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name), name
    assert {"same", "same_2", "same_3", "a_b_c", "a_b_c_2", "_9lives", "get_p12_id"} <= set(found.usable)


def test_descriptions_are_bounded_and_printable() -> None:
    text = "say \x1b[31mred\x00" + "é" * 10_000
    root = document({"/": {"get": {**OK, "summary": text, "deprecated": True}}})
    description = only(read(root)).description
    assert len(description) <= MAX_DESCRIPTION_CHARS
    assert all(c.isprintable() or c in "\n\t" for c in description)


def test_parameters_of_one_name_in_two_places_are_two_arguments_and_own_headers_none() -> None:
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "id", "in": "query", "schema": {"type": "string"}},
        {"name": "filter[a]", "in": "query", "schema": {"type": "string"}},
        {"name": "body", "in": "query", "schema": {"type": "string"}},
        {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
        {"name": "Host", "in": "header", "schema": {"type": "string"}},
        {"name": "Cookie", "in": "header", "schema": {"type": "string"}},
        {"name": "X-Thing", "in": "header", "schema": {"type": "string"}},
        {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}},
    ]
    operation = only(read(document({"/a/{id}": body({}, parameters=parameters)})))
    assert list(operation.schema["properties"]) == ["id", "id_query", "filter_a", "body", "X-Thing", "body_"]
    assert operation.schema["required"] == ["id"]
    assert operation.key_header == "Idempotency-Key"
    assert ENTRY.effect_of(operation.names, operation.method, has_key=True) == "idempotent"


@pytest.mark.parametrize(
    ("path", "parameters", "why"),
    [
        ("/{a}", [], "fit each other"),
        ("/x", [{"name": "a", "in": "path", "required": True, "schema": {}}], "fit each other"),
        ("/x", [{"name": "a", "in": "body", "schema": {}}], "without a name or a place"),
        ("/x", [{"in": "query"}], "without a name or a place"),
        ("/x", [{"name": "a\r\nb", "in": "header", "schema": {}}], "no name that can be sent"),
        ("/x", [{"name": "a", "in": "query", "style": "matrix", "schema": {}}], "style"),
        ("/x", [{"name": "a", "in": "query", "content": {"application/xml": {}}}], "written as"),
        (
            "/x",
            [{"name": f"a{n}", "in": "query", "schema": {}} for n in range(MAX_PARAMETERS + 1)],
            "parameters",
        ),
        ("/x", ["a"], "mapping"),
    ],
)
def test_parameters_that_cannot_be_written_leave_their_operation_out(
    path: str, parameters: Any, why: str
) -> None:
    found = read(document({path: {"get": {**OK, "parameters": parameters}}}))
    assert found.usable == {}
    assert re.search(why, next(iter(found.problems.values())))


# -- how much, and where --------------------------------------------------------------------------


def test_a_document_with_too_many_operations_must_be_narrowed() -> None:
    root = document({f"/p{n}": {"get": OK} for n in range(MAX_TOOLS + 1)})
    with pytest.raises(DocumentError, match="allow"):
        read(root)
    narrow = OpenApiEntry(
        name="x", document="x", base_url="https://a.example", allow=["GET /p1*"], deny=["*_p1"]
    )
    assert len(read(root, narrow).usable) == 110
    huge = document({f"/p{n}": {"get": OK} for n in range(MAX_OPERATIONS + 1)})
    with pytest.raises(DocumentError, match="operations"):
        read(huge, narrow)


def test_no_more_problems_are_told_than_anybody_reads() -> None:
    broken = {**OK, "parameters": ["broken"]}
    found = read(document({f"/p{n}": {"get": broken} for n in range(MAX_PROBLEMS + 1)}))
    assert len(found.problems) == MAX_PROBLEMS


def server(found_at: str | None = None, base_url: str | None = None, **more: Any) -> Any:
    entry = OpenApiEntry(name="x", document="x", base_url=base_url)
    own = more.pop("own", {})
    return read(document({"/p": {"get": {**OK, **own}}}, **more), entry, found_at)


def test_where_operations_are_served() -> None:
    def of(*args: Any, **more: Any) -> str:
        url: str = only(server(*args, **more)).server
        return url

    assert (
        of(servers=[{"url": "https://a.example/v1/"}, {"url": "https://b.example"}]) == "https://a.example/v1"
    )
    assert (
        of(base_url="https://c.example/x/", servers=[{"url": "https://a.example"}]) == "https://c.example/x"
    )
    assert of("https://d.example/docs/api.json", servers=[{"url": "../v2"}]) == "https://d.example/v2"
    assert of("https://d.example/docs/api.json") == "https://d.example"
    variables = {"region": {"default": "eu"}, "port": {"default": 8443}}
    assert of(servers=[{"url": "https://{region}.a.example:{port}/", "variables": variables}]) == (
        "https://eu.a.example:8443"
    )
    assert (
        of(servers=[{"url": "https://a.example"}], own={"servers": [{"url": "https://a.example/beta"}]})
        == "https://a.example/beta"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "give base_url"),
        ({"servers": [{"url": "/v1"}]}, "give base_url"),
        ({"servers": [{"url": "https://{x}.example"}]}, "without defaults"),
        ({"servers": [{"url": "ftp://a.example"}]}, "give base_url"),
        ({"servers": [{"url": "https://user@a.example"}]}, "give base_url"),
        (
            {
                "servers": [{"url": "https://a.example"}],
                "own": {"servers": [{"url": "https://evil.example"}]},
            },
            "another address",
        ),
    ],
)
def test_a_server_that_is_none_or_elsewhere_is_told(more: dict[str, Any], why: str) -> None:
    assert why in server(**more).problems["get_p"]


# -- any document at all --------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["#/paths", "string", "a", "", "query", "/x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "$ref",
                    "type",
                    "properties",
                    "items",
                    "name",
                    "in",
                    "schema",
                    "content",
                    "application/json",
                    "url",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON, JSON, JSON, JSON)
def test_whatever_stands_anywhere_is_read_or_told(
    parameters: Any, content: Any, item: Any, whole: Any
) -> None:
    root = document(
        {
            "/a": {"post": {"parameters": [parameters], "requestBody": content, "responses": whole}},
            "/b": item,
            "/c": {"get": whole, "parameters": parameters},
        },
        components=whole,
        security=item,
        servers=content,
    )
    try:
        found = read(root, OpenApiEntry(name="x", document="x"), "https://a.example/")
    except DocumentError:
        return
    for operation in found.usable.values():
        ToolSchema(operation.schema)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"document": ""}, "document is empty"),
        ({"document": "https://u:p@x.example/a"}, "user or a password"),
        ({"document": "https://"}, "no address"),
        ({"base_url": "ftp://x"}, "no address"),
        ({"base_url": "https://x.example/?a=b"}, "no address"),
        ({"digest": "sha256:12"}, "digest"),
        ({"auth": {"key": "hunter2"}}, "no reference"),
        ({"allow": [""]}, "no pattern"),
    ],
)
def test_wrong_entries_are_refused_and_show_no_secret(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why) as error:
        check_openapi_entry(OpenApiEntry(**{"name": "shop", "document": "x.yaml", **fields}))
    assert "openapi 'shop'" in error.value.message
    assert "hunter2" not in error.value.message
