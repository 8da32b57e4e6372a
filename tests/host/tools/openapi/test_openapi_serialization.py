"""Values in requests: what each style makes of them, and that what arrives is what was given."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hostler.tools.openapi.bodies import Body, SentFile, wanted_files
from hostler.tools.openapi.operations import Operation
from hostler.tools.openapi.parameters import (
    Location,
    Parameter,
    form_body,
    in_cookie,
    in_header,
    in_path,
    in_query,
)
from hostler.tools.openapi.requests import ServiceRequest, request_of
from hostler.tools.openapi.security import Credentials
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("openapi-bounds")

BLUES = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}


def parameter(location: Location, style: str, explode: bool, **fields: Any) -> Parameter:
    return Parameter("color", location, {}, style=style, explode=explode, **fields)


@pytest.mark.parametrize(
    ("style", "explode", "single", "several", "named"),
    [
        ("simple", False, "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ("label", False, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("matrix", False, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        ("matrix", True, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ],
)
def test_the_table_of_the_specification_for_paths(
    style: str, explode: bool, single: str, several: str, named: str
) -> None:
    made = parameter("path", style, explode)
    assert [in_path(made, value) for value in ("blue", BLUES, RGB)] == [single, several, named]


@pytest.mark.parametrize(
    ("style", "explode", "single", "several", "named"),
    [
        ("form", True, "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("form", False, "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
        (
            "spaceDelimited",
            False,
            "color=blue",
            "color=blue%20black%20brown",
            "color=R%20100%20G%20200%20B%20150",
        ),
        (
            "pipeDelimited",
            False,
            "color=blue",
            "color=blue%7Cblack%7Cbrown",
            "color=R%7C100%7CG%7C200%7CB%7C150",
        ),
        (
            "deepObject",
            True,
            "color=blue",
            "color=blue&color=black&color=brown",
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ),
    ],
)
def test_the_table_of_the_specification_for_queries(
    style: str, explode: bool, single: str, several: str, named: str
) -> None:
    made = parameter("query", style, explode)
    assert ["&".join(in_query(made, value)) for value in ("blue", BLUES, RGB)] == [single, several, named]


def test_headers_cookies_and_values_of_other_kinds() -> None:
    assert in_header(parameter("header", "simple", False), BLUES) == "blue,black,brown"
    assert in_header(parameter("header", "simple", False), RGB) == "R,100,G,200,B,150"
    assert in_header(parameter("header", "simple", True), RGB) == "R=100,G=200,B=150"
    assert in_cookie(parameter("cookie", "form", True), "a;b") == ["color=a%3Bb"]
    assert in_cookie(parameter("cookie", "form", False), BLUES) == ["color=blue,black,brown"]
    query = parameter("query", "form", True)
    for value, written in [
        (True, "true"),
        (False, "false"),
        (None, ""),
        (1.5, "1.5"),
        ("", ""),
        ("é&", "%C3%A9%26"),
    ]:
        assert in_query(query, value) == [f"color={written}"]
    assert in_query(query, []) == []
    assert in_query(parameter("query", "form", True, as_json=True), RGB) == [
        "color=%7B%22R%22%3A100%2C%22G%22%3A200%2C%22B%22%3A150%7D"
    ]
    reserved = parameter("query", "form", True, allow_reserved=True)
    assert in_query(reserved, "a/b?c=d&e#f[g]") == ["color=a/b?c%3Dd%26e%23f%5Bg%5D"]


@pytest.mark.parametrize("text", ["a\r\nx: y", "a\nb", "a\0b", "é", "\x7f"])
def test_what_no_header_can_carry_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="color"):
        in_header(parameter("header", "simple", False), text)


TEXTS = st.text(max_size=30)
SCALARS = (
    TEXTS | st.integers(-(2**53), 2**53) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=5)
    | st.dictionaries(st.text(min_size=1, max_size=10), SCALARS, max_size=5)
)


def operation(path: str = "/things/{id}/parts", **parameters: Parameter) -> Operation:
    return Operation(
        name="op",
        method="post",
        path=path,
        server="https://api.example/v1",
        description="",
        parameters=parameters,
        body=Body("body", "json", "application/json"),
        schema={},
        security=(),
        key_header="Idempotency-Key",
    )


def sent(made: Operation, **arguments: Any) -> ServiceRequest:
    return request_of(made, arguments, Credentials(), "key", {})


@given(VALUES, st.sampled_from(["simple", "label", "matrix"]), st.booleans())
def test_no_value_leads_out_of_its_place_in_the_path(value: Any, style: str, explode: bool) -> None:
    made = operation(id=Parameter("id", "path", {}, style=style, explode=explode))
    try:
        request = sent(made, id=value)
    except InvalidArgumentError:
        return
    for url in (
        request.url,
        str(httpx.URL(request.url)),
        str(httpx.URL("https://api.example").join(request.url)),
    ):
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("https", "api.example", "", "")
        steps = parts.path.split("/")
        assert steps[:3] == ["", "v1", "things"]
        assert steps[4:] == ["parts"]
        assert unquote(steps[3]).replace("\\", "/").split("/") not in ([".."], ["."])


@given(st.dictionaries(st.text(min_size=1, max_size=20), SCALARS, min_size=1, max_size=5))
def test_what_is_in_the_query_arrives_as_it_was_given(values: dict[str, Any]) -> None:
    made = operation("/things", **{f"p{n}": Parameter(name, "query", {}) for n, name in enumerate(values)})
    url = sent(made, **{f"p{n}": value for n, value in enumerate(values.values())}).url
    for seen in (url, str(httpx.URL(url))):
        arrived = parse_qsl(urlsplit(seen).query, keep_blank_values=True, strict_parsing=True)
        assert arrived == [(name, in_text(value)) for name, value in values.items()]


@given(st.dictionaries(st.text(min_size=1, max_size=20), SCALARS | st.lists(SCALARS, max_size=4), max_size=5))
def test_a_form_arrives_as_it_was_given(values: dict[str, Any]) -> None:
    expected = []
    for name, value in values.items():
        expected += [(name, in_text(item)) for item in (value if isinstance(value, list) else [value])]
    assert parse_qsl(form_body(values).decode(), keep_blank_values=True) == expected


@given(st.sampled_from(["header", "cookie"]), VALUES)
def test_no_value_makes_a_second_header(location: Location, value: Any) -> None:
    made = operation(
        "/things", p=Parameter("p", location, {}, style="form" if location == "cookie" else "simple")
    )
    try:
        request = sent(made, p=value)
    except InvalidArgumentError:
        return
    for written in request.headers.values():
        assert written.isascii()
        assert not set(written) & {"\r", "\n", "\0"}


def in_text(value: Any) -> str:
    return value if isinstance(value, str) else in_query(Parameter("x", "query", {}), value)[0][2:]


def test_the_key_of_the_call_goes_into_its_header_and_arguments_come_with_their_type() -> None:
    request = sent(operation("/things"), body={"a": [1]})
    assert request.headers["idempotency-key"] == "key"
    assert request.headers["content-type"] == "application/json"
    assert request.content == b'{"a":[1]}'


# -- forms with files -----------------------------------------------------------------------------


def form_parts(request: ServiceRequest) -> list[tuple[str, str | None, str, bytes]]:
    """Of each part its name, its file name, its type and its bytes, as a mail library reads them."""
    head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
    read = BytesParser(policy=HTTP).parsebytes(head + request.content)
    assert not read.defects
    found = []
    for part in read.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        found.append((str(name), part.get_filename(), part.get_content_type(), content))
    return found


def test_a_form_with_files_is_written_part_by_part() -> None:
    kinds = {"notes": "application/xml"}
    body = Body("body", "multipart", "multipart/form-data", frozenset({"cover", "pages"}), kinds)
    made = replace(operation("/things"), body=body)
    pages = [{"artifact_id": "p1"}, {"artifact_id": "p2"}]
    value = {
        "title": "\u00e9",
        "tags": ["a", "b"],
        "size": 2,
        "more": {"x": [1]},
        "notes": "<n/>",
        "pages": pages,
        "cover": pages[0],
    }
    assert sorted(wanted_files(body, {"body": value})) == ["p1", "p2"]
    odd = SentFile(b"\r\n--\r\n", 'a"\r\nx: y".png', "no\r\ntype: x")
    request = request_of(
        made,
        {"body": value},
        Credentials(),
        "key",
        {"p1": SentFile(b"\0\xff", "1.png", "image/png"), "p2": odd},
    )
    assert form_parts(request) == [
        ("title", None, "text/plain", "\u00e9".encode()),
        ("tags", None, "text/plain", b"a"),
        ("tags", None, "text/plain", b"b"),
        ("size", None, "text/plain", b"2"),
        ("more", None, "application/json", b'{"x":[1]}'),
        ("notes", None, "application/xml", b"<n/>"),
        ("pages", "1.png", "image/png", b"\0\xff"),
        ("pages", "a%22%0D%0Ax: y%22.png", "application/octet-stream", b"\r\n--\r\n"),
        ("cover", "1.png", "image/png", b"\0\xff"),
    ]


def test_no_content_ends_a_part_before_its_time() -> None:
    body = Body("body", "multipart", "multipart/form-data", frozenset({"file"}))
    made, value = replace(operation("/things"), body=body), {"body": {"file": {"artifact_id": "a"}}}
    empty = request_of(made, value, Credentials(), "key", {"a": SentFile(b"")})
    boundary = empty.headers["content-type"].partition("boundary=")[2].encode()
    hostile = b"x\r\n--" + boundary + b"--\r\n"
    [part] = form_parts(request_of(made, value, Credentials(), "key", {"a": SentFile(hostile)}))
    assert part == ("file", "file", "application/octet-stream", hostile)
