"""Schemas and references of OpenAPI documents: circles, versions, bodies."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError
from support.openapi_documents import OK, body, document, only, read, schema_of

pytestmark = pytest.mark.gate("openapi-bounds")


def test_a_schema_that_holds_itself_stays_a_reference_and_checks_values() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "integer"}},
    }
    schema = schema_of({"$ref": "#/components/schemas/Node"}, Node=node)
    assert list(schema["$defs"]) == ["Node"]
    ready = ToolSchema(schema)
    ready.check({"body": {"next": {"next": {"v": 1}}}}, "it")
    with pytest.raises(InvalidArgumentError, match="/body/next/v"):
        ready.check({"body": {"next": {"v": "a"}}}, "it")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"$ref": "#/components/schemas/A"}, "."),
        ({"$ref": "#/nowhere"}, "not there"),
        ({"$ref": "other.yaml#/X"}, "another document"),
        ({"$ref": "http://169.254.169.254/"}, "another document"),
        ({"$ref": "file:///etc/passwd"}, "another document"),
        ({"$ref": "#/components/schemas/Exploding"}, "."),
        ({"properties": {"a": 5}}, "no mapping"),
        ({"type": "strange"}, "JSON Schema"),
        ({"pattern": "(" * 50}, "JSON Schema"),
        ({"enum": ["x" * 300_000]}, "bytes"),
    ],
)
def test_an_operation_whose_schema_cannot_be_used_is_left_out_and_the_rest_stays(part: Any, why: str) -> None:
    schemas: dict[str, Any] = {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
        "Exploding": {"allOf": [{"$ref": "#/components/schemas/Exploding"}] * 3},
    }
    root = document({"/bad": body(part), "/good": {"get": OK}}, components={"schemas": schemas})
    found = read(root)
    assert list(found.usable) == ["get_good"]
    assert re.search(why, found.problems["post_bad"])


def test_references_of_parameters_and_bodies_may_not_lead_in_circles() -> None:
    parts = {"a": {"$ref": "#/components/parameters/b"}, "b": {"$ref": "#/components/parameters/a"}}
    root = document(
        {
            "/a": {"get": {**OK, "parameters": [{"$ref": "#/components/parameters/a"}]}},
            "/b": {"$ref": "#/paths/~1b"},
        },
        components={"parameters": parts},
    )
    found = read(root)
    assert set(found.problems.values()) == {"its references lead in circles"}
    assert set(found.problems) == {"get_a", "get_b"}


def test_more_parts_than_a_schema_may_have_are_refused() -> None:
    wide = {"anyOf": [{"type": "string"}] * 5_000}
    assert "parts" in read(document({"/": body(wide)})).problems["post"]


def test_what_3_0_says_of_null_and_bounds_is_said_as_json_schema() -> None:
    schema = schema_of(
        {
            "type": "object",
            "required": ["id", "name"],
            "properties": {
                "id": {"type": "integer", "readOnly": True},
                "name": {"type": "string", "nullable": True, "enum": ["a"], "example": "a", "x-y": 1},
                "size": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 5},
            },
            "discriminator": {"propertyName": "name"},
        },
        "3.0.3",
    )["properties"]["body"]
    assert schema["required"] == ["name"]
    assert schema["properties"] == {
        "name": {"type": ["string", "null"], "enum": ["a", None]},
        "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 5},
    }
    assert "discriminator" not in schema


def test_definitions_of_one_name_in_two_places_do_not_meet() -> None:
    root = document(
        {
            "/": body(
                {
                    "properties": {
                        "a": {"$ref": "#/components/schemas/Thing"},
                        "b": {"$ref": "#/components/x/Thing"},
                        "c": {"$ref": "#/components/schemas/odd name~1%7B%7D"},
                    }
                }
            )
        },
        components={
            "schemas": {"Thing": {"type": "string"}, "odd name/{}": {"type": "boolean"}},
            "x": {"Thing": {"type": "integer"}},
        },
    )
    ready = ToolSchema(only(read(root)).schema)
    ready.check({"body": {"a": "x", "b": 1, "c": True}}, "it")
    for wrong in ({"a": 1}, {"b": "x"}, {"c": 1}):
        with pytest.raises(InvalidArgumentError):
            ready.check({"body": wrong}, "it")


def sends(version: str, **content: Any) -> Any:
    """The body of the only operation, by the types that it may have."""
    types = {kind.replace("_", "/", 1).replace("_", "-"): media for kind, media in content.items()}
    root = document({"/": {"post": {**OK, "requestBody": {"content": types}}}}, version)
    return only(read(root))


def test_of_several_bodies_the_one_that_says_most_is_sent() -> None:
    thing: dict[str, Any] = {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    form = {"multipart_form_data": thing, "application_x_www_form_urlencoded": thing}
    assert sends("3.1.0", text_plain={}, **form, application_json=thing).body.kind == "json"
    assert sends("3.1.0", text_plain={}, **form).body.kind == "form"
    assert sends("3.1.0", text_plain={}, multipart_form_data=thing).body.kind == "multipart"
    said = sends("3.1.0", image_png={}, application_xml=thing)
    assert (said.body.kind, said.body.media_type) == ("text", "application/xml")
    assert said.schema["properties"]["body"]["type"] == "string"
    for kind, media_type in (("image_png", "image/png"), ("image_*", "application/octet-stream")):
        found = sends("3.1.0", **{kind: {}})
        assert (found.body.kind, found.body.media_type) == ("file", media_type)
        assert found.schema["properties"]["body"]["required"] == ["artifact_id"]


@pytest.mark.parametrize(
    ("version", "file"),
    [
        ("3.0.3", {"type": "string", "format": "binary"}),
        ("3.1.0", {"contentMediaType": "application/octet-stream"}),
        ("3.1.0", {"type": "string", "contentMediaType": "image/png"}),
    ],
)
def test_what_is_bytes_in_a_form_is_named_by_its_artifact(version: str, file: dict[str, Any]) -> None:
    fields = {
        "one": {**file, "description": "A face."},
        "all": {"type": "array", "items": file, "maxItems": 2},
        "text": {"type": "string", "contentMediaType": "text/csv"},
        "id": {"type": "integer", "readOnly": True},
    }
    form = {"schema": {"type": "object", "required": ["one"], "properties": fields, "nullable": True}}
    encoding = {"one": {"contentType": "image/png, image/gif"}, "text": {"contentType": "text/csv"}}
    made = sends(version, multipart_form_data={**form, "encoding": encoding})
    assert (made.body.files, made.body.kinds) == ({"one", "all"}, {"text": "text/csv"})
    ready = ToolSchema(made.schema)
    a = {"artifact_id": "a"}
    ready.check({"body": {"one": a, "all": [a, a], "text": "x"}}, "it")
    for wrong in ({}, {"one": "a"}, {"one": a, "all": [a] * 3}, {"one": {**a, "x": 1}}, None):
        with pytest.raises(InvalidArgumentError):
            ready.check({"body": wrong}, "it")
