"""Engines that answer nonsense, late, or not at all: bounded, in words, and never taken for a removal."""

import asyncio
import os
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import ClassVar

import pytest

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers import engine as engines
from mooring.runtimes.containers import exchange as exchanging
from mooring.runtimes.containers import harbour as harbouring
from mooring.runtimes.containers import leftovers
from mooring.runtimes.containers.endpoints import Endpoint
from mooring.runtimes.containers.engine import Engine, Removal
from mooring.runtimes.containers.events import Event
from mooring.runtimes.containers.exchange import exchange
from mooring.runtimes.containers.failures import Refusal, engine_unreachable
from mooring.runtimes.containers.harbour import find_engine
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.leftovers import Debt
from mooring.runtimes.containers.lives import may_live, this_process
from mooring.runtimes.containers.pulling import ensure_image
from mooring.runtimes.containers.spec import ContainerSpec, Volume, check_spec
from mooring.runtimes.containers.wards import Wards
from mooring.runtimes.containers.watch import Watch
from mooring.runtimes.guardian import Guardian
from tests.containers.scripted import VERSION, Answer, Begun, Scripted, answer
from tests.support import on_both_loops, until, within


def folders_of_tests(tmp_path: Path) -> list[Path]:
    """From that of the test up to where the system has them all."""
    system = Path(tempfile.gettempdir())
    return [folder for folder in (tmp_path, *tmp_path.parents) if system in folder.parents]


def known(path: Path) -> Engine:
    return Engine(Endpoint(str(path), "test"), "docker", "7", "1.41", "amd64")


@on_both_loops
async def test_only_no_such_container_is_a_removal_whatever_else_is_answered(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "a": answer(b'{"message": "page not found"}', 404),
        "b": answer(b"<html>404 Not Found</html>", 404, "text/html"),
        "c": answer(b'{"message": "No such container: c"}', 500),
        "d": answer(b"{}"),
        "e": answer(b'{"Id": "e", "State": 7}'),
        "f": answer(b"not even JSON"),
        "g": b"",
        "h": b"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nshort",
        "i": b"SSH-2.0-OpenSSH\r\n",
        "j": b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "k": b'HTTP/1.1 200 X\r\n\r\n{"Id": "k", "State": {}}',
        "l": b'HTTP/1.1 404 X\r\nContent-Length: 100\r\n\r\n{"message": "No such container: l"}',
    }

    def by_name(line: str) -> Answer:
        return answers[line.split("/")[3]]

    async with within(), Scripted(tmp_path, by_name) as scripted:
        engine = known(scripted.path)
        for name in answers:
            with pytest.raises(MooringError):
                await engine.inspect(name)
        answers["y"] = b"HTTP/1.1 404 Not Found\r\nContent-Type: x\r\n\r\nNo such container: y\r\n"
        answers["z"] = answer(b'{"message": "No such container: z"}', 404)
        assert await engine.inspect("y") is None, "what it says ends with the connection"
        assert await engine.inspect("z") is None


async def test_an_engine_that_says_nothing_is_not_waited_for_beyond_the_bound(tmp_path: Path) -> None:
    async with within(), Scripted(tmp_path, lambda line: None) as scripted:
        with pytest.raises(Unavailable) as slow:
            await exchange(Endpoint(str(scripted.path), ""), "GET", "/x", timeout_s=0.05)
        assert slow.value.code == "engine_unreachable" and "0.05 s" in slow.value.message


async def test_an_answer_without_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanging, "ANSWER_BYTES", 1000)
    async with within(), Scripted(tmp_path, lambda line: answer(b"x" * 5000)) as scripted:
        with pytest.raises(Unavailable):
            await exchange(Endpoint(str(scripted.path), ""), "GET", "/x", timeout_s=5)
        with pytest.raises(Unavailable):
            async with known(scripted.path).events({}) as lines:
                async for _ in lines:
                    pass


@on_both_loops
async def test_more_lines_than_are_looked_at_wait_and_none_is_lost(tmp_path: Path) -> None:
    many = b"".join(b"line %d\n" % number for number in range(50_000))
    async with within(), Scripted(tmp_path, lambda line: answer(many + b"last")) as scripted:
        async with known(scripted.path).events({}) as lines:
            await asyncio.sleep(0.05)
            found = [line async for line in lines]
        assert b"\n".join(found) == many + b"last"


async def test_what_is_no_engine_is_not_taken_for_one(tmp_path: Path) -> None:
    for said in (answer(b"{}"), answer(b"hello", 200, "text/plain"), answer(VERSION, 500), b""):
        async with within(), Scripted(tmp_path, lambda line, said=said: said) as scripted:  # type: ignore[misc]
            with pytest.raises(Unavailable):
                await find_engine("auto", [Endpoint(str(scripted.path), "")])
        scripted.path.unlink(missing_ok=True)


async def test_the_first_that_answers_and_is_of_the_wanted_kind_is_taken(tmp_path: Path) -> None:
    stale, missing = tmp_path / "stale.sock", tmp_path / "missing.sock"
    async with within(), Scripted(tmp_path, lambda line: answer(VERSION)) as scripted:
        stale.touch()
        endpoints = [Endpoint(str(path), "") for path in (missing, stale, scripted.path)]
        engine = await find_engine("auto", endpoints)
        assert str(engine.endpoint) == str(scripted.path) and engine.kind == "docker"
        with pytest.raises(Unavailable):
            await find_engine("podman", endpoints)  # the stale one may be that
        with pytest.raises(UserError) as none:
            await find_engine("podman", [endpoints[0], endpoints[2]])
        assert none.value.code == "no_engine" and "podman" in none.value.message


async def test_no_engine_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError) as none:
        await find_engine(
            "auto", [Endpoint(str(tmp_path / "a.sock"), ""), Endpoint(str(tmp_path / "b.sock"), "")]
        )
    assert none.value.code == "no_engine" and "a.sock" in none.value.message and "Podman" in none.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody who may not")
async def test_a_socket_of_others_says_what_to_do(tmp_path: Path) -> None:
    async with within(), Scripted(tmp_path, lambda line: answer(VERSION)) as scripted:
        scripted.path.chmod(0o600)
        for folder in folders_of_tests(tmp_path):
            folder.chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(UserError) as forbidden:
                await find_engine("auto", [Endpoint(str(scripted.path), "")])
        finally:
            os.seteuid(0)
        assert forbidden.value.code == "engine_forbidden" and "usermod" in forbidden.value.hint


async def test_an_engine_at_an_address_is_spoken_to_as_well() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(VERSION))
        await writer.drain()
        writer.close()

    async with within(), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engine = await Engine.meet(Endpoint("", "test", "127.0.0.1", port))
        assert str(engine.endpoint) == f"127.0.0.1:{port}"


async def test_the_version_of_the_api_is_one_that_both_know(tmp_path: Path) -> None:
    for newest, oldest, spoken in (
        ("1.41", "1.12", "/v1.41/"),
        ("1.99", "1.44", "/v1.47/"),
        ("1.99", "1.60", "/v1.60/"),
    ):
        version = VERSION.replace(b"1.41", newest.encode()).replace(b"1.24", oldest.encode())

        def said(line: str, version: bytes = version) -> Answer:
            return answer(version if "/version" in line else b"[]")

        async with within(), Scripted(tmp_path, said) as scripted:
            engine = await Engine.meet(Endpoint(str(scripted.path), ""))
            assert await engine.containers({}) == []
            assert spoken in scripted.asked[-1]
        scripted.path.unlink(missing_ok=True)


async def test_what_is_gone_or_going_need_not_be_removed_again(tmp_path: Path) -> None:
    said = {
        "gone": answer(b'{"message": "No such container: gone"}', 404),
        "going": answer(b'{"message": "removal of container going is already in progress"}', 409),
        "there": answer(b"", 204),
        "stuck": answer(b'{"message": "device or resource busy"}', 500),
    }
    async with (
        within(),
        Scripted(tmp_path, lambda line: said[line.split("/")[3].partition("?")[0]]) as scripted,
    ):
        engine = known(scripted.path)
        assert await engine.remove("gone") is Removal.MISSING
        assert await engine.remove("going") is Removal.OTHERS
        assert await engine.remove("there") is Removal.OURS
        with pytest.raises(Refusal):
            await engine.remove("stuck")
        assert await asyncio.to_thread(engine.remove_now, "gone")
        assert not await asyncio.to_thread(engine.remove_now, "stuck")
    assert not engine.remove_now("gone"), "nobody is there"


async def test_a_pull_shows_its_progress_and_an_error_in_it_is_told(tmp_path: Path) -> None:
    spec = ContainerSpec(name="tool", image="a/b")
    good = b'{"status": "Downloading", "id": "x", "progressDetail": {"current": 1, "total": 2}}\n'
    is_there = False

    def said(line: str) -> Answer:
        if "/images/create" in line:
            return answer(good + (b"" if is_there else b'{"error": "manifest unknown"}\n'))
        found, missing = answer(b'{"Id": "i"}'), answer(b'{"message": "No such image: a/b"}', 404)
        return found if is_there and any("create" in asked for asked in scripted.asked) else missing

    async with within(), Scripted(tmp_path, said) as scripted:
        progress: list[object] = []
        with pytest.raises(UserError) as missing:
            await ensure_image(known(scripted.path), spec, progress.append, afresh=True)
        assert missing.value.code == "image_missing" and len(progress) == 1
        assert "fromImage=a%2Fb&tag=latest" in scripted.asked[-1]
        is_there = True
        scripted.asked.clear()
        await ensure_image(known(scripted.path), spec, progress.append, afresh=True)
        assert len(progress) == 2


def test_whether_the_mooring_that_a_label_names_has_ended_can_be_seen() -> None:
    process = this_process()
    pid, started, boot, namespace = process.split()

    def lives(label: str, *, is_running: bool = False) -> bool:
        return may_live(label, is_running=is_running)

    assert lives(process)
    assert not lives(f"{pid} {started}0 {boot} {namespace}")
    for unknown in ("", "nonsense", f"{pid} {started}0 {boot} pid:[1]"):
        assert lives(unknown), "what cannot be known is left alone"
    # Of a machine that went down nothing runs; what does is another machine's, at the same engine.
    before = f"{pid} {started} another-boot {namespace}"
    assert not lives(before) and lives(before, is_running=True)


# What is wrong with the engine, and not with the server


async def test_an_answer_that_cannot_be_read_says_nothing_of_the_server(tmp_path: Path) -> None:
    for nonsense in (b"no JSON", b"{}", b"[7]", b'{"Id": 7, "Architecture": 7}', b"[" * 100_000):
        async with within(), Scripted(tmp_path, lambda line, said=nonsense: answer(said)) as scripted:  # type: ignore[misc]
            engine = known(scripted.path)
            asked: list[Coroutine[object, object, object]] = [
                engine.create("x", {}),
                engine.inspect("x"),
                engine.containers({}),
            ]
            if nonsense != b"{}":
                asked.append(engine.image("x"))
            for asking in asked:
                with pytest.raises(Unavailable) as unreadable:
                    await asking
                assert unreadable.value.code == "engine_unreachable"
                assert "cannot be read" in unreadable.value.message
        scripted.path.unlink(missing_ok=True)


@pytest.mark.parametrize("status", [400, 403, 500, 503])
async def test_an_engine_that_refuses_to_tell_of_any_container_is_one_that_is_gone(
    tmp_path: Path, status: int
) -> None:
    locked = answer(b'{"message": "database is locked"}', status)
    async with within(), Scripted(tmp_path, lambda line: locked) as scripted:
        with pytest.raises(Unavailable) as unlisted:
            await known(scripted.path).containers({})
        watch = Watch(known(scripted.path), "me")
        with pytest.raises(Unavailable) as untold:
            await watch.ensure()
        for refused in (unlisted, untold):
            assert refused.value.code == "engine_unreachable" and "is locked" in refused.value.message
        await watch.aclose()


async def test_whatever_an_engine_tells_it_is_listened_to_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So deep a nesting is no error of the decoder's own."""
    told = [b"[" * 100_000 + b"\n", b'{"Action": "die", "Actor": {"ID": "c"}}\n']

    def said(line: str) -> Answer:
        text = told.pop(0) if told else b""
        return Begun(b"HTTP/1.1 200 OK\r\n\r\n" + text)

    class Ear:
        happened: ClassVar[list[Event]] = []
        on_event = happened.append

        def on_gap(self) -> None:
            pass

    async with within(), Scripted(tmp_path, said) as scripted:
        watch, ear = Watch(known(scripted.path), "me"), Ear()
        watch.listen("c", ear)
        await watch.ensure()
        await until(lambda: ear.happened)
        assert watch.streams == 2 and watch.is_open and "RecursionError" in caplog.text
        await watch.aclose()


# What is to be removed


async def test_one_that_nobody_has_told_the_end_of_is_looked_for_again_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = answer(b'{"message": "No such container: x"}', 404)
    guardian = Guardian(time.monotonic, command=["/no/such/program"])
    async with within(), Scripted(tmp_path, lambda line: missing) as scripted:
        engine = known(scripted.path)
        engine.wards = Wards(guardian, "/x")

        async def left_after(end: BaseException | str) -> tuple[object, bool]:
            """How it goes, and whether the guardian still knows of it."""
            coming: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            engine.wards.expect("x")
            if isinstance(end, asyncio.CancelledError):
                coming.cancel()
            elif isinstance(end, BaseException):
                coming.set_exception(end)
            else:
                coming.set_result(end)
                engine.wards.name(end, "x")
            debt = Debt("x", coming)
            await debt.due()
            return await debt.pay(engine), bool(guardian._registrations)

        assert await left_after("the-id") == (Removal.MISSING, False)
        assert await left_after(Refusal("creating", 500, "no")) == (Removal.MISSING, False)
        unknown = (engine_unreachable("/x", "no answer"), asyncio.CancelledError())
        for end in unknown:
            assert await left_after(end) == (None, True)
        monkeypatch.setattr(leftovers, "APPEARING_S", 0)
        for end in unknown:
            assert await left_after(end) == (Removal.MISSING, False)


async def test_what_is_owed_is_owed_whatever_happens_and_those_who_make_it_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr(harbouring, "OWED_PAUSE_S", 0.01)
    pay, is_mad = Debt.pay, True

    def said(line: str) -> Answer:
        return answer(VERSION if "/version" in line else b"[]" if "/json" in line else b"")

    async def fail(debt: Debt, engine: Engine) -> Removal | None:
        if is_mad:
            raise RuntimeError("a bug")
        return await pay(debt, engine)

    monkeypatch.setattr(Debt, "pay", fail)
    scripted = Scripted(tmp_path, said)
    harbour = Harbours(Owner("me", "now"), {}, tmp_path).get(str(scripted.path))
    coming = asyncio.create_task(asyncio.Event().wait())
    harbour.owe([Debt("a"), Debt("b", coming)])
    async with within():
        await until(lambda: "a is not removed yet: there is no container engine" in caplog.text)
        async with scripted:
            await until(lambda: "a bug" in caplog.text)
            is_mad = False
            await until(lambda: set(harbour._owed) == {"b"})
            assert any(line.startswith("DELETE") and "/a?" in line for line in scripted.asked)
            await harbour.aclose()
            assert coming.cancelled() and harbour._paying is None


# Pulls that stall


@pytest.mark.parametrize("said", [None, Begun(b"HTTP/1.1 200 OK\r\n\r\n" + b'{"status": "Waiting"}\n')])
async def test_a_pull_of_which_nothing_is_heard_any_more_has_failed(
    tmp_path: Path, said: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "SILENCE_S", 0.05)
    missing = answer(b'{"message": "No such image: a/b"}', 404)
    async with within(), Scripted(tmp_path, lambda line: said if "create" in line else missing) as scripted:
        with pytest.raises(Unavailable) as stalled:
            spec = ContainerSpec(name="tool", image="a/b")
            await ensure_image(known(scripted.path), spec, lambda progress: None, afresh=True)
        assert stalled.value.code == "pull_failed" and "0.05 s" in stalled.value.message


# What is there, and not for us to see


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody who may not")
async def test_what_lies_in_a_folder_of_others_is_not_missing(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "data").mkdir()
    async with within(), Scripted(hidden, lambda line: answer(VERSION)) as scripted:
        for folder in folders_of_tests(tmp_path):
            folder.chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(UserError) as forbidden:
                await find_engine("auto", [Endpoint(str(scripted.path), "")])
            check_spec(ContainerSpec(name="tool", image="a", volumes=(Volume(str(hidden / "data"), "/x"),)))
            with pytest.raises(UserError) as missing:
                check_spec(
                    ContainerSpec(name="tool", image="a", volumes=(Volume(str(tmp_path / "no"), "/x"),))
                )
        finally:
            os.seteuid(0)
        assert forbidden.value.code == "engine_forbidden" and missing.value.code == "bad_volume"
