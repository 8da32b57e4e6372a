"""What is Tbox's own."""

from __future__ import annotations

from typing import Any

from hostler_tbox.runner import Tbox

from hostler_sdk.testing import Driven, drive
from support.services.server import Answer, reply, sse
from support.services.tbox import APP, KEY, FakeTbox, said


async def ask(fake: FakeTbox, given: Any = "Hi", **config: Any) -> Driven:
    return await drive(Tbox, given, config={"base-url": fake.base, "api-key": KEY, "app-id": APP} | config)


def events(*sent: bytes) -> Answer:
    return Answer([*sent], content_type="text/event-stream")


async def test_the_request_is_what_the_api_wants() -> None:
    async with FakeTbox() as fake:
        await ask(fake, **{"search-engine": True})
        assert fake.messages == [
            {"appId": APP, "query": "Hi", "userId": "conversation", "stream": True, "searchEngine": True}
        ]
        given = {"text": "Hi", "contents": [{"type": "image_base64", "image_base64": "AAEC"}]}
        await ask(fake, given)
        assert fake.messages[1]["files"] == [{"fileId": "file-1", "type": "IMAGE"}]
        away = {"text": "Hi", "contents": [{"type": "file_url", "file_url": "https://x.example/a.pdf"}]}
        assert (await ask(fake, away)).code == "tbox.file_invalid"


async def test_what_is_no_part_of_the_answer() -> None:
    async with FakeTbox() as fake:
        sent = [said("thinking", text="hm"), said("chunk", text="A"), said("charge"), said("followup", x=1)]
        fake.next(events(*sent, said("end"), said("chunk", text="B"), said("end")))
        assert (await ask(fake)).text == "AB"
        fake.next(events(said("chunk", text="bad"), said("revoke"), said("chunk", text="No."), said("end")))
        assert (await ask(fake)).text == "No."


async def test_errors_in_all_their_places() -> None:
    async with FakeTbox() as fake:
        fake.next(reply({"errorCode": "1001", "errorMsg": "quota", "data": None}))
        driven = await ask(fake)
        assert driven.code == "tbox.service_error"
        assert driven.error == "Tbox reported an error (1001): quota; look at the app in Tbox"
        fake.next(events(said("error", errorCode="7", errorMsg="broke")))
        assert "(7): broke" in str((await ask(fake)).error)
        fake.next(events(sse({"type": "chunk", "payload": "{]"}, "message"), said("end")))
        assert (await ask(fake)).code == "tbox.response_invalid"
