"""A server in containers, from `run` to `rm`."""

from pathlib import Path

from tests.containers.engines import RealEngine
from tests.containers.images import NAME
from tests.e2e.containers.dock import DEMO, HASTY, dock, image_options


async def test_a_server_in_containers_lives_as_one_that_is_a_command(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    async with dock(tmp_path, real_engine) as ours:
        url = await ours.run(spare=1)
        again = ["run", "demo", *image_options(real_engine), "--spare", "1", *HASTY, "--", *DEMO]
        assert (await ours.place.done(*again)).strip() == url, "once more is nothing"
        [server] = await ours.place.told("ls")
        assert (server["state"], server["image"], server["command"]) == ("ready", NAME, list(DEMO))
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            told = await ours.becomes(lambda server: len(server["instances"]) == 2)
            assert {one["use"] for one in told["instances"]} == {"serving", "spare"}
            assert {one["container"] for one in told["instances"]} == ours.ours()
            shown = await ours.place.done("status", "demo")
            assert container[:12] in shown and NAME in shown
            await client.text("noisy", lines=3, stream="stderr")
            await ours.logged("this line is only noise: 3")
            session = client.session

            assert await ours.place.done("stop", "demo") == "demo has stopped\n"
            assert not ours.ours()
            assert (await ours.seen())["state"] == "stopped"
            await ours.place.done("start", "demo")
            assert await client.text("echo", text="again") == "again"
            await ours.place.done("restart", "demo")
            assert await client.text("echo", text="and again") == "and again"
            assert client.session == session
            assert await ours.place.done("call", "demo", "echo", "text=there") == "there\n"
            assert "echo" in await ours.place.done("tools", "demo")
            assert await ours.place.done("rm", "demo") == "demo is removed\n"
            assert not ours.ours()
            assert await ours.place.told("ls") == []


async def test_a_file_can_say_the_same(tmp_path: Path, real_engine: RealEngine) -> None:
    async with dock(tmp_path, real_engine) as ours:
        await ours.run("--memory", "512MiB", "--read-only", "--user", "0:0", "--env", "GREETING=hello")
        file = tmp_path / "mooring.toml"
        file.write_text(await ours.place.done("export", "demo"))
        await ours.place.done("rm", "demo")
        await ours.place.done("up", "-f", str(file))
        ours.port = (await ours.place.told("daemon", "status"))["port"]
        async with ours.client() as client:
            assert await client.text("echo", text="hi") == "hi"
            container = await ours.container_of(client)
            _, seen = real_engine.ask("GET", f"/containers/{container}/json")
            assert "GREETING=hello" in seen["Config"]["Env"] and seen["HostConfig"]["ReadonlyRootfs"]
            assert (seen["HostConfig"]["Memory"], seen["HostConfig"]["NetworkMode"]) == (512 << 20, "none")
            await ours.place.done("up", "-f", str(file))
            assert await ours.container_of(client) == container, "once more is nothing"
            file.write_text(file.read_text().replace("512MiB", "256MiB"))
            await ours.place.done("up", "-f", str(file))
            assert await client.text("echo", text="the same session") == "the same session"
            container = await ours.container_of(client)
            _, seen = real_engine.ask("GET", f"/containers/{container}/json")
            assert seen["HostConfig"]["Memory"] == 256 << 20
        await ours.place.done("down", "-f", str(file))
        assert not ours.ours()
