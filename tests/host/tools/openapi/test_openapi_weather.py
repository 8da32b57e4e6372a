"""The document of a service that many use, the National Weather Service, against a fake of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.tools.errors import ToolFailedError
from hostler.tools.openapi.source import OpenApiTools
from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError, to_fault
from support.invocations import Calling
from support.openapi.weather import DOCUMENT, PICTURE, WHO, Weather
from support.web import Web, redirect


@asynccontextmanager
async def weather(**fields: Any) -> AsyncIterator[tuple[Web, Calling]]:
    async with Web() as web:
        Weather(web)
        given = {
            "base_url": web.url("/"),
            "network": ["127.0.0.1"],
            "auth": {"userAgent": "env:WHO"},
            **fields,
        }
        source = OpenApiTools("main", Path("unused"))
        await source.configure([ToolEntry(openapi=OpenApiEntry(name="w", document=str(DOCUMENT), **given))])
        [status] = source.documents("main")
        assert (status.problem, dict(status.left_out)) == (None, {})
        try:
            yield web, Calling([source])
        finally:
            await source.close()


@pytest.fixture(autouse=True)
def who(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", WHO)


async def test_every_operation_is_a_tool_that_only_reads() -> None:
    async with weather() as (_, calling):
        tools = calling.tools.offered("main")
    assert len(tools) == 58
    assert {tool.pin.effect for tool in tools.values()} == {"pure"}
    assert {"w.alerts_active", "w.gridpoint_forecast_hourly", "w.sigmetsByFIRByDate"} < set(tools)
    for tool in tools.values():
        ToolSchema(tool.parameters)
        assert "User-Agent" not in tool.parameters["properties"]  # that is the operator's to say
    assert tools["w.icons"].resource.description.endswith("Deprecated.")
    assert tools["w.zone_list_type"].parameters["required"] == ["type"]
    assert {"type", "type_query"} < set(tools["w.zone_list_type"].parameters["properties"])


async def test_requests_are_written_as_the_document_says() -> None:
    async with weather() as (web, calling):
        where = {"wfo": "TOP", "x": 31, "y": 80}
        flags = ["forecast_temperature_qv", "forecast_wind_speed_qv"]
        given: dict[str, Any] = {**where, "units": "si", "Feature-Flags": flags}
        told = await calling.call("w.gridpoint_forecast", **given)
        assert told["body"]["properties"] == {
            "path": "/gridpoints/TOP/31,80/forecast",
            "units": "si",
            "flags": ",".join(flags),
        }
        found = await calling.call("w.point", point="39.7456,-97.0892")
        assert found["body"]["properties"]["gridId"] == "TOP"
        await calling.call("w.obs_stations", state=["KS", "AM"], limit=500)
        assert web.asked[-1].path == "/stations?state=KS,AM&limit=500"  # one pair, as explode says
        await calling.call("w.alerts_active", event=["Flood Watch"], severity=["Severe", "Minor"])
        asked = parse_qs(urlsplit(web.asked[-1].path).query)
        assert asked == {"event": ["Flood Watch"], "severity": ["Severe,Minor"]}
        # a redirect within the service is followed, with who asks
        stations = await calling.call("w.point_stations", point="39.7456,-97.0892")
        assert stations["body"]["properties"]["path"] == "/gridpoints/TOP/31,80/stations"
        picture = await calling.call("w.icons", set="land", timeOfDay="day", first="rain", size=64)
        assert picture["artifact"]["mime_type"] == "image/png"
        assert calling.files.kept[0][0] == PICTURE
        assert {asked.headers["user-agent"] for asked in web.asked} == {WHO}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("gridpoint", {"wfo": "XXX", "x": 1, "y": 1}, "/wfo"),
    ("gridpoint", {"wfo": "TOP", "x": -1, "y": 1}, "/x"),
    ("gridpoint", {"wfo": "TOP", "x": 1}, '"y" is a required property'),
    ("gridpoint_forecast", {"wfo": "TOP", "x": 1, "y": 1, "Feature-Flags": ["all"]}, "/Feature-Flags/0"),
    ("obs_stations", {"state": "KS"}, "/state"),
    ("obs_stations", {"state": ["ZZ"]}, "/state/0"),
    ("obs_stations", {"limit": 501}, "/limit"),
    ("alerts_active", {"severity": ["severe"]}, "/severity/0"),
    ("alerts_active", {"event": ["a,b"]}, "/event/0"),
    ("alerts_active", {"color": "red"}, "color"),
    ("alerts_active_zone", {"zoneId": "KSX001"}, "/zoneId"),
    ("office", {"officeId": "NOPE"}, "/officeId"),
    ("icons", {"set": "land", "timeOfDay": "day", "first": "rain", "size": "tiny"}, "/size"),
    ("icons", {"set": "..", "timeOfDay": "day", "first": "rain"}, "path"),
    ("radar_queue", {"host": "ldm", "arrived": "yesterday"}, "/arrived"),
    ("taf", {"stationId": "KTOP", "date": "2026-01-01", "time": "2460"}, "/time"),
    ("point", {"point": "39.7;-97"}, "/point"),
]


async def test_arguments_are_refused_before_they_are_sent() -> None:
    async with weather() as (web, calling):
        for name, wrong, where in WRONG:
            with pytest.raises(InvalidArgumentError) as refused:
                await calling.call(f"w.{name}", **wrong)
            assert where in refused.value.message
        given: dict[str, Any] = {"host": "ldm", "arrived": "2026-01-01T00:00:00Z/P1D"}
        with pytest.raises(ToolFailedError):  # asked for: this fake has no such host
            await calling.call("w.radar_queue", **given)
        assert len(web.asked) == 1


async def test_a_redirect_away_from_the_service_is_not_followed() -> None:
    async with weather() as (web, calling), Web() as other:
        web.pages["/glossary"] = redirect(other.url("/stolen"))
        with pytest.raises(ToolFailedError, match="302 Found: it wants to be asked at another address"):
            await calling.call("w.glossary")
        assert (len(web.asked), other.connections) == (1, 0)


async def test_problems_of_the_service_are_told_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with weather() as (_, calling):
        with pytest.raises(ToolFailedError, match="404 Not Found") as missing:
            await calling.call("w.point", point="0,0")
        fault = to_fault(missing.value)
        assert fault.code == "not_found"
        assert "Unable to provide data for /points/0,0" in fault.message
        monkeypatch.setenv("WHO", "somebody else entirely")
        with pytest.raises(ToolFailedError, match=r"403 Forbidden: .*Who are you\?"):
            await calling.call("w.point", point="39.7456,-97.0892")
