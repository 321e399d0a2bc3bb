"""What cannot work is told with its remedy: at once, on stderr, with the exit status of the command."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.containers.engines import RealEngine
from tests.containers.images import FOREIGN as FOREIGN_IMAGE
from tests.containers.images import NAME
from tests.containers.registry import FOREIGN, GOOD, registry
from tests.e2e.containers.dock import DEMO, HARD, Dock, dock, image_options


async def refused(ours: Dock, *words: str, args: tuple[str, ...] = DEMO) -> str:
    """What `mooring run` says that does not work; and that the server can be forgotten afterwards."""
    status, out, err = await ours.place.mooring("run", "demo", *words, "--", *args)
    assert status in (1, 2) and not out, (status, out, err)
    assert "error: " in err and "hint: " in err, err
    assert "Traceback" not in err, err
    await ours.place.mooring("rm", "demo")
    assert not ours.ours()
    return err


async def test_an_image_that_is_not_there_and_not_to_be_pulled(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        err = await refused(ours, *image_options(real_engine, "mooring-nowhere:1"), "--pull", "never")
        assert "the image mooring-nowhere:1 is not there" in err
        assert "check its name" in err and "pull" in err


async def test_an_image_that_its_registry_does_not_have_and_one_for_other_machines(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    with registry() as (where, _):
        async with dock(tmp_path, real_engine) as ours:
            err = await refused(ours, *image_options(real_engine, f"{where}/{GOOD}:2"))
            assert f"the image {where}/{GOOD}:2 is not there" in err and "check its name" in err
            err = await refused(ours, *image_options(real_engine, f"{where}/{FOREIGN}:1"))
            assert f"the image {where}/{FOREIGN}:1 does not run on this machine" in err
            assert "this architecture" in err


async def test_a_registry_that_cannot_be_reached(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        err = await refused(ours, *image_options(real_engine, "127.0.0.1:1/nothing:1"))
        assert "could not be pulled" in err and "--pull never" in err


async def test_an_image_is_pulled_and_that_is_seen(tmp_path: Path, real_engine: RealEngine) -> None:
    with registry() as (where, asked):
        image = f"{where}/{GOOD}:1"
        try:
            async with dock(tmp_path, real_engine) as ours:
                words = ["run", "demo", *image_options(real_engine, image), "--", *DEMO]
                status, out, err = await ours.place.mooring(*words)
                assert status == 0 and out.startswith("http://"), err
                assert any(path.endswith("manifests/1") for path in asked)
                assert "pull" in err and image in err, err
        finally:
            real_engine.ask("DELETE", f"/images/{image}?force=1")


async def test_a_program_for_another_architecture(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        err = await refused(ours, *image_options(real_engine, FOREIGN_IMAGE), args=())
        assert f"the image {FOREIGN_IMAGE} does not run on this machine" in err
        assert "choose an image for this architecture" in err


async def test_a_program_that_the_image_does_not_have(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        words = [*image_options(real_engine), "--eof-grace", "0"]
        status, out, err = await ours.place.mooring("run", "demo", *words, "--", "/no/such/program")
        assert status == 1 and not out and "/no/such/program" in err, err


@pytest.mark.parametrize("mode", [(), ("--foreground", "--port", "0")])
async def test_no_engine(tmp_path: Path, real_engine: RealEngine, mode: tuple[str, ...]) -> None:
    async with dock(tmp_path, real_engine) as ours:
        err = await refused(ours, *mode, *image_options(tmp_path / "no-such.sock"))
        assert "there is no container engine" in err and str(tmp_path / "no-such.sock") in err
        assert "install and start" in err and "--engine SOCKET" in err


async def test_an_engine_that_does_not_answer(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        left = tmp_path / "left.sock"
        server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), str(left))
        server.close()
        await server.wait_closed()
        if not left.exists():  # as it is from Python 3.13 on
            left.touch()
        err = await refused(ours, *image_options(left))
        assert "does not answer" in err and "start it" in err


@pytest.mark.parametrize("mode", [(), ("--foreground", "--port", "0")])
async def test_no_permission_on_the_socket(
    tmp_path: Path, real_engine: RealEngine, mode: tuple[str, ...]
) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv: apt-get install util-linux")
    # Another user could not even run the Python of root's home; so it is a root who may not do everything.
    like_others = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    before = real_engine.socket.stat().st_mode
    async with dock(tmp_path, real_engine, prefix=like_others) as ours:
        real_engine.socket.chmod(0)
        try:
            err = await refused(ours, *mode, *image_options(real_engine))
        finally:
            real_engine.socket.chmod(before)
        assert "may not be used by this user" in err and "join the group of the socket" in err


async def test_a_folder_that_is_not_there(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        err = await refused(ours, *image_options(real_engine), "--volume", f"{tmp_path}/nothing:/data")
        assert f"{tmp_path}/nothing" in err


async def test_a_failed_start_is_made_up_for_when_its_cause_is_gone(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        name = "mooring-later:1"
        words = [*image_options(real_engine, name), "--pull", "never"]
        status, _, err = await ours.place.mooring("run", "demo", *words, "--", *HARD)
        assert status in (1, 2) and name in err
        repo, _, tag = name.partition(":")
        real_engine.do("POST", f"/images/{NAME}/tag?repo={repo}&tag={tag}")
        try:
            await ours.place.done("start", "demo")
            assert (await ours.seen())["state"] == "ready"
            await ours.place.done("rm", "demo")
        finally:
            real_engine.ask("DELETE", f"/images/{name}")
