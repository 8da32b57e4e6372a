"""The parts of lark-oapi that are used: its transport, its frames, and its cipher.

The package imports the models of all its sixty services whatever is asked of it, which takes 6 seconds of
processor time and 160 MiB in every plugin process. Its own parts import each other by their full names, so it
is enough that the packages above them are known: with these in place, only what is used is loaded.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

_SKIPPED = ("lark_oapi", "lark_oapi.ws")
"""Packages whose `__init__` imports everything."""


def _know_packages() -> None:
    spec = importlib.util.find_spec("lark_oapi")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("lark-oapi is not installed")
    (root, *_) = spec.submodule_search_locations
    for name in _SKIPPED:
        if name not in sys.modules:
            package = ModuleType(name)
            package.__path__ = [root + name.removeprefix("lark_oapi").replace(".", "/")]
            sys.modules[name] = package


_know_packages()

from lark_oapi.core.enum import AccessTokenType, HttpMethod  # noqa: E402
from lark_oapi.core.http import Transport  # noqa: E402
from lark_oapi.core.http.transport import _build_header, _build_url  # noqa: E402
from lark_oapi.core.json import JSON  # noqa: E402
from lark_oapi.core.model import BaseRequest, Config, RawResponse, RequestOption  # noqa: E402
from lark_oapi.core.utils import AESCipher  # noqa: E402
from lark_oapi.ws.const import (  # noqa: E402
    AUTH_FAILED,
    EXCEED_CONN_LIMIT,
    FORBIDDEN,
    GEN_ENDPOINT_URI,
    HEADER_BIZ_RT,
    HEADER_HANDSHAKE_AUTH_ERRCODE,
    HEADER_HANDSHAKE_MSG,
    HEADER_HANDSHAKE_STATUS,
    HEADER_MESSAGE_ID,
    HEADER_SEQ,
    HEADER_SUM,
    HEADER_TYPE,
    INTERNAL_ERROR,
    SERVICE_ID,
    SYSTEM_BUSY,
)
from lark_oapi.ws.enum import FrameType, MessageType  # noqa: E402
from lark_oapi.ws.model import Response  # noqa: E402
from lark_oapi.ws.pb.google.protobuf.message import DecodeError  # noqa: E402
from lark_oapi.ws.pb.pbbp2_pb2 import Frame  # noqa: E402

build_header, build_url = _build_header, _build_url

__all__ = [
    "AUTH_FAILED",
    "EXCEED_CONN_LIMIT",
    "FORBIDDEN",
    "GEN_ENDPOINT_URI",
    "HEADER_BIZ_RT",
    "HEADER_HANDSHAKE_AUTH_ERRCODE",
    "HEADER_HANDSHAKE_MSG",
    "HEADER_HANDSHAKE_STATUS",
    "HEADER_MESSAGE_ID",
    "HEADER_SEQ",
    "HEADER_SUM",
    "HEADER_TYPE",
    "INTERNAL_ERROR",
    "JSON",
    "SERVICE_ID",
    "SYSTEM_BUSY",
    "AESCipher",
    "AccessTokenType",
    "BaseRequest",
    "Config",
    "DecodeError",
    "Frame",
    "FrameType",
    "HttpMethod",
    "MessageType",
    "RawResponse",
    "RequestOption",
    "Response",
    "Transport",
    "build_header",
    "build_url",
]
