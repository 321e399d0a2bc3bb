"""`mooring relay` and `mooring connect` as a user and a script have them: words, exit statuses, endings."""

import asyncio
import json
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.program import Json, kill
from tests.e2e.relay.place import AGENT, Command, Place, bearer, place
from tests.e2e.test_recovery_command import servers
from tests.hosting import DEMO, SCRIPTED
from tests.mcp_client import McpClient, client_of
from tests.support import alive, free_port, until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(300)]

FORGED = "mrt_aaaaaaaaaaaa_" + "A" * 43
"""Looks like a token, and is none."""
LONG_S = 60


def calling(there: Place, name: str = "demo") -> Any:
    """A client with a session, through the relay."""
    return client_of(there.port, path=f"/{AGENT}/{name}/mcp", headers=bearer(there.phone))


async def echoes(there: Place) -> None:
    """A new session works: what it says comes back."""
    async with calling(there) as client:
        assert await client.text("echo", text="ahoy") == "ahoy"


@asynccontextmanager
async def begun(command: Command) -> AsyncIterator[Command]:
    """It runs for the length of the block, at the end of which it is told to end, if it has not."""
    async with command:
        yield command
        await command.end()


def sleeping(client: McpClient, seconds: float) -> "asyncio.Task[Json]":
    params = {"name": "sleep", "arguments": {"seconds": seconds}}
    return asyncio.create_task(client.ask("tools/call", params))


def end_children(there: Place) -> None:
    """And with them what they are still at: the daemon would wait for it."""
    for pid in servers(there.workstation):
        with suppress(ProcessLookupError):
            kill(pid)


async def in_flight(there: Place, number: int = 1) -> None:
    async with within():
        while (await there.told("relay", "status"))["calls_in_flight"] != number:
            await asyncio.sleep(0.05)


async def test_tokens_are_told_once_and_kept_as_hashes(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        told = await there.told(
            "relay", "token", "create", "desk", "--servers", "time,notes", "--expires", "1h"
        )
        assert list(told) == ["name", "token", "servers", "calls", "created", "expires"]
        assert (told["name"], told["servers"], told["calls"]) == ("desk", ["time", "notes"], [])
        assert told["expires"] - told["created"] == pytest.approx(3600)
        printed = await there.done("relay", "token", "create", "tablet", "--call", "desk/time")
        assert printed.startswith("mrt_") and printed.count("\n") == 1, "on stdout alone: $(…) has it"
        listed = await there.done("relay", "token", "list")
        assert "desk/time" in listed and "time, notes" in listed
        names = {one["name"] for one in await there.told("relay", "token", "list")}
        assert names == {"desk", "tablet", "laptop", "phone"}
        status, _, err = await there.run("relay", "token", "create", "desk", "--servers", "x")
        assert status == 2 and "desk" in err
        status, _, err = await there.run("relay", "token", "create", "nothing")
        assert status == 2 and "--servers" in err and "--call" in err
        secrets = [told["token"], printed.strip(), there.laptop, there.phone]
        files = [path for path in there.state.rglob("*") if path.is_file()]
        assert files and not any(secret.encode() in path.read_bytes() for path in files for secret in secrets)
        assert not any(secret in listed for secret in secrets)
        assert stat.S_IMODE(there.state.stat().st_mode) == 0o700


async def test_what_is_printed_and_told_when_all_is_well(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO, "other": SCRIPTED}) as there:
        urls = {name: there.url(name) for name in ("demo", "other")}
        await there.agent.printed(urls["demo"])
        await until(lambda: len(there.agent.words) == 2)
        assert sorted(there.agent.words) == sorted(urls.values())
        await echoes(there)
        [connection] = await there.told("connect", "status")
        assert (connection["relay"], connection["state"]) == (there.address, "connected")
        assert (connection["name"], connection["held_by"]) == ("laptop", "command")
        assert connection["urls"] == urls and sorted(connection["servers"]) == sorted(urls)
        assert connection["calls"] >= 3 and connection["reconnects"] == 0
        assert connection["last_error"] is None and connection["round_trip_ms"] > 0
        head, row = (await there.done("connect", "status")).splitlines()
        assert head.split()[:3] == ["RELAY", "STATE", "NAME"] and "ROUND TRIP" in head
        assert row.startswith(f"{there.address}  connected  laptop")
        about = await there.told("relay", "status")
        assert (about["pid"], about["state"]) == (there.relay.pid, "ready")
        [agent] = about["agents"]
        assert (agent["name"], agent["state"], agent["servers"]) == ("laptop", "connected", sorted(urls))
        assert agent["calls"] == connection["calls"]
        shown = (await there.done("relay", "status")).splitlines()
        assert f"pid {there.relay.pid}" in shown[0] and shown[0].startswith(f"http://127.0.0.1:{there.port}")
        assert shown[1].split()[:3] == ["NAME", "KIND", "STATE"]
        assert shown[2].split()[:3] == ["laptop", "agent", "connected"] and "REQUESTS" in shown[1]
        assert await there.agent.end() == 0
        assert "Nothing is connected" in await there.done("connect", "status")
        assert "Nobody is connected" in await there.done("relay", "status")
        # One server only, as JSON, with the token from a file.
        kept = tmp_path / "token"
        kept.write_text(there.laptop + "\n")
        words = ("connect", there.address, "--server", "demo", "--json", "--token-file", str(kept))
        async with begun(there.command(*words, token="")) as agent:
            await agent.message(lambda line: line.get("event") == "connected")
            await until(lambda: agent.words)
            assert json.loads(agent.words[0]) == {"urls": {"demo": urls["demo"]}}
            async with there.caller("other") as client:
                assert (await client.raw("POST", client.request("ping"))).status == 404
        everything = there.relay.told() + there.agent.told() + agent.told()
        assert not any(token in everything for token in (there.laptop, there.phone))


async def test_the_daemon_stays_connected(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        words = ("connect", there.address, "--background")
        printed = await there.done(*words, MOORING_RELAY_TOKEN=there.laptop)
        assert printed == there.url("demo") + "\n"
        again = ("connect", there.address.replace("ws://", "http://"), "--background")
        assert await there.done(*again, MOORING_RELAY_TOKEN=there.laptop) == printed, "once more is nothing"
        assert [found["level"] for found in await examined(there)] == ["ok"]
        [connection] = await there.told("connect", "status")
        assert (connection["state"], connection["held_by"]) == ("connected", "daemon")
        assert there.laptop not in (there.workstation.state / "connections.json").read_text()
        async with calling(there) as client:
            pid = json.loads(await client.text("counter"))["pid"]
            await there.done("daemon", "restart")
            assert json.loads(await client.text("counter"))["pid"] == pid, "children and sessions go on"
            daemon = (await there.told("daemon", "status"))["pid"]
            os.kill(daemon, signal.SIGKILL)
            await until(lambda: not alive(daemon))
            await there.done("daemon", "start")
            assert json.loads(await client.text("counter"))["count"] == 1, "another child, the same session"
            await there.done("daemon", "stop")
            async with within(8):  # it has said goodbye: who waits for one that may come waits for 10 s
                error = (await client.ask("tools/list"))["error"]
            assert (error["data"]["reason"], error["data"]["retryable"]) == ("agent_absent", True)
            await there.done("daemon", "start")
            await until_connected(there)
            assert json.loads(await client.text("counter"))["count"] == 1
        status, _, err = await there.run("connect", "stop", "wss://elsewhere.example")
        assert status == 2 and there.address in err
        assert "not connected to any more" in await there.done("connect", "stop")
        assert await there.told("connect", "status") == []
        assert not (await there.told("relay", "status"))["agents"]
        await there.done("daemon", "restart")
        assert await there.told("connect", "status") == []


async def examined(there: Place) -> list[Any]:
    """What `mooring doctor` says of relays."""
    _, out, _ = await there.run("doctor", "--json")
    return [found for found in json.loads(out) if found["check"] == "relays"]


async def until_connected(there: Place) -> None:
    async with within(60):
        while not any(one["state"] == "connected" for one in (await there.told("relay", "status"))["agents"]):
            await asyncio.sleep(0.1)


async def test_a_token_that_is_no_good_is_refused_in_words(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        cases = [
            (FORGED, (), "does not know this token"),
            (there.phone, (), "may call, but not connect"),
            (there.laptop, ("--background", "--server", "other"), "no server other"),
            ("", (), "there is no token"),
        ]
        await there.workstation.done("run", "more", "--no-wait", "--", *SCRIPTED)
        cases.append((there.laptop, ("--server", "more"), "may not offer more"))
        for token, options, words in cases:
            status, out, err = await there.run("connect", there.address, *options, MOORING_RELAY_TOKEN=token)
            assert (status, out) == (2, "") and words in err and "hint: " in err, (words, err)
            assert not token or token not in err
        status, _, err = await there.run("connect", there.address, "--token", there.laptop)
        assert status == 2 and "reference" in err and there.laptop not in err
        status, out, err = await there.run(
            "connect", there.address, "--background", MOORING_RELAY_TOKEN=FORGED
        )
        assert (status, out) == (2, "") and "does not know this token" in err and FORGED not in err, err
        assert await there.told("connect", "status") == []
        told = there.relay.told() + (there.workstation.state / "daemon.log").read_text()
        assert FORGED not in told and there.phone not in told and there.laptop not in told
        # It is taken from the one who has it.
        await there.connect()
        async with there.caller("demo") as client:
            await client.initialize()
            await there.done("relay", "token", "revoke", "laptop")
            assert await there.agent.ended() == 2
            assert any("revoked" in line for line in there.agent.words), there.agent.told()
            await there.done("relay", "token", "revoke", "phone")
            async with within():
                while (await client.raw("POST", client.request("tools/list"))).status != 401:
                    await asyncio.sleep(0.1)


async def test_a_mistake_changes_nothing_of_a_connection_that_works(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        words = ("connect", there.address, "--background")
        await there.done(*words, MOORING_RELAY_TOKEN=there.laptop)
        kept = (there.workstation.state / "connections.json").read_bytes()
        arrivals = len(there.relay.events("connected"))
        (tmp_path / "wrong").write_text(FORGED)
        async with calling(there) as client:
            for token, options in (
                (FORGED, ()),
                (there.phone, ()),
                ("", ("--token-file", str(tmp_path / "wrong"))),
                ("", ("--token-file", str(tmp_path / "none"))),
            ):
                status, out, err = await there.run(*words, *options, MOORING_RELAY_TOKEN=token)
                assert (status, out) == (2, "") and "stays as it was" in err, err
            assert await client.text("echo", text="ahoy") == "ahoy"
        assert (there.workstation.state / "connections.json").read_bytes() == kept
        [told] = await there.told("connect", "status")
        assert (told["state"], told["reconnects"]) == ("connected", 0)
        assert len(there.relay.events("connected")) == arrivals, "nobody took its place, not for a moment"
        await there.done("daemon", "restart")  # the token that is kept is the one that was
        await until_connected(there)
        # Nor is anything kept of what can never work.
        for relay in ("ws://192.0.2.2:8080", "ws://relay.example.com"):
            status, out, err = await there.run(
                "connect", relay, "--background", MOORING_RELAY_TOKEN=there.laptop
            )
            assert (status, out) == (2, "") and "plain text" in err, err
        assert (there.workstation.state / "connections.json").read_bytes() == kept


async def test_an_address_that_is_none(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        for url, words in (
            ("relay.example.com", "no address of a relay"),
            ("ftp://relay.example.com", "no address of a relay"),
            ("wss://", "no address of a relay"),
            ("wss://relay.example.com/?token=x", "more than a relay's"),
            ("wss://user:pass@relay.example.com", "password"),
            ("wss://relay.example.com:port", "port"),
        ):
            status, out, err = await there.run("connect", url, MOORING_RELAY_TOKEN=there.laptop)
            assert (status, out) == (2, "") and words in err and "hint: " in err, (url, err)
            assert "pass@" not in err and there.laptop not in err


async def test_a_relay_that_is_not_there_is_tried_again_and_said_once(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        assert await there.relay.end() == 0
        async with begun(there.command("connect", there.address, token=there.laptop)) as agent:
            async with within():
                await agent.message(lambda line: "refused" in line["message"])
            async with within():
                while (await there.told("connect", "status"))[0]["next_attempt_in_s"] is None:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(2)
            assert len(agent.messages) == 1, "each cause is told once, however often it is tried"
            [told] = await there.told("connect", "status")
            assert told["state"] in ("waiting", "dialling") and "refused" in told["last_error"]
            assert "refused" in (await there.run("connect", "status"))[2]
            await there.open_relay()
            await agent.logged("connected")
            await echoes(there)
            assert await agent.end() == 0


async def test_who_is_no_relay_is_told_at_once(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        daemon = (await there.told("daemon", "status"))["port"]
        elsewhere, given = f"ws://127.0.0.1:{daemon}", {"MOORING_RELAY_TOKEN": there.laptop}
        said = f"{elsewhere} is no relay: it answers with HTTP status 404"
        for how in ((), ("--client", "--server", "laptop/demo")):
            status, _, err = await there.run("connect", elsewhere, *how, **given)
            assert status == 1 and f"error: {said}" in err and "hint: give the address" in err, err
        status, out, err = await there.run("connect", elsewhere, "--background", **given)
        assert (status, out) == (1, "") and said in err and f"connect stop {elsewhere}" in err, err
        [told] = await there.told("connect", "status")
        assert told["state"] in ("waiting", "dialling") and told["last_error_code"] == "not_a_relay"
        assert f"{elsewhere}: is no relay: it answers" in (await there.run("connect", "status"))[2]
        [found] = await examined(there)
        assert found["level"] == "note" and f"not connected to {elsewhere}: is no relay" in found["text"]
        assert f"mooring connect stop {elsewhere} forgets it" in found["remedy"]
        await there.done("connect", "stop", elsewhere.replace("ws://", "http://"))
        assert await there.told("connect", "status") == []
        assert await examined(there) == []


async def test_waiting_for_a_relay_in_the_background_is_told_and_can_be_left(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}, connect=False) as there:
        assert await there.relay.end() == 0
        words = ("connect", there.address, "--background")
        async with begun(there.command(*words, token=there.laptop)) as waiting:
            said = await waiting.printed("Ctrl-C leaves it to the daemon")
            assert f"not connected to {there.address} yet: connection refused" in said
            assert await waiting.end(signal.SIGINT) == 130
            await waiting.printed(
                f"the daemon goes on trying; mooring connect stop {there.address} ends that"
            )
        [told] = await there.told("connect", "status")
        assert told["held_by"] == "daemon"
        await there.open_relay()
        await until_connected(there)
        await there.done("relay", "token", "revoke", "laptop")
        async with within():
            while (found := await examined(there))[0]["level"] != "problem":
                await asyncio.sleep(0.1)
        assert "the relay refuses" in found[0]["text"] and "mooring relay token list" in found[0]["remedy"]


async def test_two_with_one_token(tmp_path: Path) -> None:
    async with (
        place(tmp_path, {"demo": DEMO}) as there,
        begun(there.command("connect", there.address, token=there.laptop)) as second,
    ):
        async with within():
            said = await second.message(lambda line: "4409" in line["message"])
        assert "connected from elsewhere" in said["message"]
        await echoes(there)
        assert len(there.agent.events("connected")) == 1, "the first does not notice"
        assert await there.agent.end() == 0
        await second.logged("connected")
        await echoes(there)
        assert await second.end() == 0
        # The daemon's own is named, with what ends it.
        words = ("connect", there.address)
        await there.done(*words, "--background", MOORING_RELAY_TOKEN=there.laptop)
        async with begun(there.command(*words, token=there.laptop)) as third:
            said = await third.logged("held_by_daemon")
            assert "as laptop (mooring connect stop ends that)" in said["message"]
            async with within():
                await third.message(lambda line: "4409" in line["message"])
            await there.done("connect", "stop")
            await third.logged("connected")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("who", ["relay", "agent"])
async def test_calls_under_way_at_the_end(tmp_path: Path, who: str, number: signal.Signals) -> None:
    """They finish, and it ends with 0; or they are cut at the deadline, are told so, and it ends with 3."""
    async with place(tmp_path, {"demo": DEMO}) as there:
        command = there.relay if who == "relay" else there.agent
        async with calling(there) as client:
            call = sleeping(client, 5.0)
            await in_flight(there)
            assert await command.end(number) == 0, command.told()
            assert "result" in await call
        # Again, with less patience than the call takes.
        if who == "relay":
            command = await there.open_relay("--drain-timeout", "1s")
            await until_connected(there)
        else:
            command = await there.connect("--drain-timeout", "500ms")
        async with calling(there) as client:
            call = sleeping(client, LONG_S)
            await in_flight(there)
            assert await command.end(number) == 3, command.told()
            error = (await call)["error"]
            assert error["data"]["retryable"] is False and "may have been executed" in error["message"]
            assert error["data"]["reason"] == ("draining" if who == "relay" else "agent_gone")
        end_children(there)


async def test_the_end_of_a_client_of_ours(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}) as there:
        port = free_port()
        words = ("connect", there.address, "--client", "--server", "laptop/demo", "--port", str(port))
        for seconds, options, status in ((5.0, (), 0), (LONG_S, ("--drain-timeout", "300ms"), 3)):
            async with begun(there.command(*words, *options, token=there.phone)) as command:
                assert await command.printed("http://") == f"http://127.0.0.1:{port}/laptop/demo/mcp"
                async with client_of(port, path="/laptop/demo/mcp") as client:
                    [told] = [one for one in await there.told("connect", "status") if one["name"] == "phone"]
                    assert (told["held_by"], told["servers"]) == ("client", ["laptop/demo"])
                    assert told["urls"] == {"laptop/demo": f"http://127.0.0.1:{port}/laptop/demo/mcp"}
                    call = sleeping(client, seconds)
                    await until_open(there)
                    assert await command.end() == status, command.told()
                    answer = await call
                    assert ("result" in answer) is (status == 0), answer
        end_children(there)
        for server, code in (("laptop/none", 2), ("desk/demo", 2)):
            async with begun(there.command(*words[:3], "--server", server, token=FORGED)) as command:
                assert await command.ended() == code, command.told()
        for bad in ("demo", "laptop/demo/mcp", "/demo"):
            status, _, err = await there.run(*words[:3], "--server", bad, MOORING_RELAY_TOKEN=there.phone)
            assert status == 2 and "name" in err.lower(), err


async def until_open(there: Place) -> None:
    """A call of a client of ours is under way at the agent."""
    async with within():
        while not (await there.told("relay", "status"))["agents"][0]["open"]:
            await asyncio.sleep(0.05)


async def test_a_restart_loses_no_call(tmp_path: Path) -> None:
    async with place(tmp_path, {"demo": DEMO}) as there, calling(there) as client:
        before = await there.told("relay", "status")
        call = sleeping(client, 5.0)
        await in_flight(there)
        restarting = asyncio.create_task(there.done("relay", "restart"))
        assert "result" in await call
        assert "has restarted" in await restarting
        assert await client.text("echo", text="again") == "again"
        after = await there.told("relay", "status")
        assert after["started_at"] > before["started_at"] and after["pid"] == before["pid"]
        assert after["agents"][0]["state"] == "connected"
        assert any("1012" in line["message"] for line in there.agent.messages), there.agent.told()


async def test_what_a_relay_refuses(tmp_path: Path) -> None:
    async with place(tmp_path, {}, connect=False) as there:
        status, _, err = await there.run("relay", "--insecure-listen", "127.0.0.1:0")
        assert status == 1 and "another relay uses" in err, "one for each folder"
        elsewhere = {"MOORING_RELAY_STATE": str(tmp_path / "other")}
        status, _, err = await there.run("relay", "--insecure-listen", f"127.0.0.1:{there.port}", **elsewhere)
        assert status == 1 and str(there.port) in err
        for words, said in (
            ((), "--insecure-listen"),
            (("--insecure-listen", "0.0.0.0:0"), "plain text"),
            (("--insecure-listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"), "this machine alone"),
            (
                ("--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key", "--listen", "127.0.0.1:0"),
                "nowhere",
            ),
            *([(("--insecure-listen", "127.0.0.1:0", "--production"), "root")] if os.getuid() == 0 else []),
        ):
            status, _, err = await there.run("relay", *words, **elsewhere)
            assert status == 2 and said in err, (words, status, err)
        for word in ("status", "restart"):
            status, _, err = await there.run("relay", word, **elsewhere)
            assert status == 1 and "no relay runs" in err
