"""Events with their files: what the host refuses for good comes bare, and holds up no others."""

from __future__ import annotations

import pytest

from hostler_protocol.errors import InvalidArgumentError, StorageError
from hostler_sdk.channels import Channel, ChannelEvent, SetupError
from hostler_sdk.channels.attachments import MIB, FileUnavailableError
from hostler_sdk.channels.delivery import Delivery, file_bounds
from hostler_sdk.errors import Cancelled, HostError
from support.channel_wire import Wire, remote

NO = InvalidArgumentError("the data has over 64 KiB")


def event(**data: object) -> ChannelEvent:
    return ChannelEvent(event_type="message.received", event_id="7", text="hi", data=dict(data))


async def test_an_event_comes_with_its_files_and_names_those_that_cannot_be_had() -> None:
    wire = Wire()
    files = [remote([b"abc"], name="a"), remote([FileUnavailableError("gone", final=True)], name="b")]
    reply = await Delivery(Channel("c", {}, None, wire)).deliver(event(x=1), files, state=8)
    assert reply.outcome == "started"
    (stored,) = wire.ingest.events
    assert [wire.ingest.files[one.artifact_id] for one in stored.attachments] == [b"abc"]
    assert stored.data["x"] == 1
    assert [one["name"] for one in stored.data["missing_files"]] == ["b"]
    assert wire.ingest.states == {"c": 8}


async def test_what_is_refused_comes_without_data_and_files_but_for_what_is_kept() -> None:
    wire = Wire()
    wire.ingest.refusals = [NO]
    delivery = Delivery(Channel("c", {}, None, wire))
    await delivery.deliver(event(value="yes", raw="x" * 100), [remote([b"abc"])], state=lambda: 8)
    (stored,) = wire.ingest.events
    assert stored.text == "hi"
    assert stored.data == {"value": "yes", "left_out": "the data has over 64 KiB"}
    assert stored.attachments == []
    assert wire.ingest.states == {"c": 8}


async def test_what_is_refused_twice_is_lost_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.ingest.refusals = [NO, NO]
    channel = Channel("c", {}, None, wire)
    assert (await Delivery(channel).deliver(event(), state=8)).outcome == "refused"
    assert "event 7 is lost: the host refused it: the data has over 64 KiB" in caplog.text
    assert (wire.ingest.events, channel.state) == ([], 8)


@pytest.mark.parametrize("error", [Cancelled("the host is gone"), StorageError("full")])
async def test_an_event_is_not_made_bare_for_a_host_that_is_gone(error: Exception) -> None:
    wire = Wire(error)
    delivery = Delivery(Channel("c", {}, None, wire))
    if isinstance(error, Cancelled):
        with pytest.raises(HostError):
            await delivery.deliver(event(x=1))
    else:  # it is offered again until the host can store it
        await delivery.deliver(event(x=1))
        assert wire.ingest.events[0].data == {"x": 1}


@pytest.mark.parametrize("setting", [-1, 101, True, "20", None])
def test_bounds_are_a_number_of_mib(setting: object) -> None:
    with pytest.raises(SetupError, match="`max-file-mib` must be a number from 0 to 100"):
        file_bounds({"max-file-mib": setting})
    assert file_bounds({}).bytes_each == 20 * MIB
    assert file_bounds({"max-file-mib": 0}).bytes_each == 0
