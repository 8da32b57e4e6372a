"""Build the HTTP request of a call from its arguments. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hostler.domain.record import Record
from hostler.tools.openapi.bodies import SentFile, encode_body
from hostler.tools.openapi.limits import MAX_URL_CHARS
from hostler.tools.openapi.operations import Operation
from hostler.tools.openapi.parameters import header_value, in_cookie, in_header, in_path, in_query
from hostler.tools.openapi.security import Credentials
from hostler_protocol.errors import InvalidArgumentError

_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_SAFE_IN_TEMPLATE = re.compile(r"[^!-~]|[\"<>\\^`?#]")


class ServiceRequest(Record):
    """The request to send. It may contain secrets."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes


def request_of(
    operation: Operation,
    arguments: Mapping[str, Any],
    credentials: Credentials,
    effect_key: str,
    files: Mapping[str, SentFile],
) -> ServiceRequest:
    """Build the request; `files` by artifact id. InvalidArgumentError if a value cannot be sent."""
    in_template: dict[str, str] = {}
    query: list[str] = []
    cookies: list[str] = []
    headers = {"accept": "application/json, */*;q=0.5"}
    for argument, parameter in operation.parameters.items():
        if argument not in arguments:
            continue
        value = arguments[argument]
        match parameter.location:
            case "path":
                in_template[parameter.name] = in_path(parameter, value)
            case "query":
                query += in_query(parameter, value)
            case "header":
                headers[parameter.name.lower()] = in_header(parameter, value)
            case "cookie":
                cookies += in_cookie(parameter, value)
    query += credentials.query
    cookies += credentials.cookies
    if cookies:
        headers["cookie"] = "; ".join(cookies)
    if operation.key_header is not None:
        headers[operation.key_header.lower()] = header_value(operation.key_header, effect_key)
    content = b""
    if (body := operation.body) is not None and body.argument in arguments:
        kind, content = encode_body(body, arguments[body.argument], files, effect_key)
        headers["content-type"] = header_value("content-type", kind)
    headers |= credentials.headers
    url = f"{operation.server}{_path(operation.path, in_template)}"
    if query:
        url = f"{url}?{'&'.join(query)}"
    if len(url) > MAX_URL_CHARS:
        raise InvalidArgumentError(f"the arguments make an address of over {MAX_URL_CHARS:,} characters")
    return ServiceRequest(operation.method.upper(), url, headers, content)


def _path(template: str, values: Mapping[str, str]) -> str:
    """Fill in a path template. InvalidArgumentError if a value would lead to another path."""
    steps = []
    for part in template.split("/"):
        step = _TEMPLATE.sub(lambda match: values[match[1]], _plain(part))
        if part != step and step.lower().replace("%2e", ".") in (".", ".."):
            raise InvalidArgumentError("the arguments would lead to another path")
        steps.append(step)
    return "/".join(steps)


def _plain(part: str) -> str:
    """Escape characters of the template that are not valid in an address."""
    return _SAFE_IN_TEMPLATE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), part)
