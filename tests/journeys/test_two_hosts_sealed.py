"""Two hosts on one database with one erasure key: one erases while the other is at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.host import maintenance, workspace_keys
from hostler.host.config import ConfigFile
from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.sealing.erasure_key import ErasureKey
from hostler.storage.stores import verification
from support.key_thief import Thief, copy_of
from support.sealed_load import Load
from support.stepping import WORKSPACE, Stage, stage, within
from support.turned_on import turn_on

pytestmark = [
    pytest.mark.gate("keys-change", "erased-copies"),
    pytest.mark.postgres,
]


@pytest.fixture
def shared_url(postgres_server, postgres_template) -> str:  # type: ignore[no-untyped-def]
    """A database on a server."""
    return str(postgres_server.create(postgres_template))


async def errors(host: Stage) -> list[str]:
    return [problem.sentence for problem in await host.host.problems() if problem.severity == "error"]


async def test_one_erases_and_rotates_while_the_other_works(tmp_path: Path, shared_url: str) -> None:
    key = tmp_path / "shared" / "erasure.key"
    both = {"database": shared_url, "erasure_key": (key,)}
    async with within(300), stage(tmp_path / "one", **both) as one:  # type: ignore[arg-type]
        first = await turn_on(one, tmp_path)
        async with stage(tmp_path / "two", **both) as two:  # type: ignore[arg-type]
            assert not await errors(two)
            await one.run([["say", "goneword"]], conversation_id="gone")
            before = await copy_of(shared_url)
            async with Load(two) as load:
                await load.more(8)
                for round_ in range(3):
                    await one.run([["say", "x"]], conversation_id=f"gone{round_}")
                    name = "gone" if round_ == 0 else f"gone{round_ - 1}"
                    erased = await maintenance.delete_conversation(one.host.data, WORKSPACE, name, by="test")
                    assert erased.erasure_key is not None
                    await load.more(8)
                    rotated = await workspace_keys.rotate(one.host.sealing, WORKSPACE, None, by="test")
                    assert rotated.erasure_key != erased.erasure_key
                    await load.more(8)
                second = new_key()
                (tmp_path / "second.key").write_text(second.hex())
                references = [f"file:{tmp_path / 'second.key'}", f"file:{tmp_path / 'master.key'}"]
                await one.host.apply(ConfigFile(master_key=references), actor="test")
                await load.more(16)
            while await errors(two):  # until it has learnt of the new key
                await asyncio.sleep(0.05)
            reports = await verification.verify_all(two.host.db)
            assert [report.broken for report in reports] == [None] * len(reports)
        copies = [before, await copy_of(shared_url)]
    stolen = Thief(KeyRing([second, first]), key, copies).read(tmp_path)
    assert b"goneword" not in stolen
    assert all(word.encode() in stolen for word in load.ended)


async def test_a_host_with_another_erasure_key_says_so_and_harms_nothing(
    tmp_path: Path, shared_url: str
) -> None:
    async with (
        within(200),
        stage(tmp_path / "one", database=shared_url, erasure_key=(tmp_path / "k1",)) as one,
    ):
        await turn_on(one, tmp_path)
        await one.run([["say", "a word"]], conversation_id="c")
        ErasureKey([tmp_path / "k2"]).create()
        other = stage(tmp_path / "two", database=shared_url, agent=False, erasure_key=(tmp_path / "k2",))
        async with other as two:
            assert two.host.sealing.problem is not None
            assert "is not the one of this database" in two.host.sealing.problem
        missing = stage(tmp_path / "four", database=shared_url, agent=False, erasure_key=(tmp_path / "k4",))
        async with missing as four:
            assert four.host.sealing.problem is not None
            assert "put it back from its copy" in four.host.sealing.problem
        assert not (tmp_path / "k4").exists()
        unnamed = stage(tmp_path / "three", database=shared_url, agent=False)
        async with unnamed as three:
            assert three.host.sealing.problem is not None
            assert "its erasure key is not named" in three.host.sealing.problem
        assert (await one.run([["say", "still"]], conversation_id="c")).said == ["still"]


async def test_without_a_named_erasure_key_nothing_is_sealed_and_that_is_said(
    tmp_path: Path, shared_url: str
) -> None:
    async with within(200), stage(tmp_path / "one", database=shared_url) as one:
        (tmp_path / "master.key").write_text(new_key().hex())
        diff = await one.host.apply(ConfigFile(master_key=[f"file:{tmp_path / 'master.key'}"]), actor="test")
        assert [(problem.severity, "is not encrypted" in problem.problem) for problem in diff.problems] == [
            ("warning", True)
        ]
        assert (await one.run([["say", "in the clear"]], conversation_id="c")).said == ["in the clear"]
