"""The pages and the doors of a host, through its real listener."""

import asyncio
import json
import os
import signal
import socket
import ssl
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from mooring.errors import UserError
from mooring.host import foreground
from mooring.host.options import ForegroundOptions, ListenOptions, ServerOptions
from mooring.host.stop import Stop
from mooring.http.limits import Limits
from mooring.proxy.policy import SessionPolicy
from tests.e2e.mooring import COMMAND, running_mooring
from tests.e2e.program import Program
from tests.hosting import DEMO, SCRIPTED, Host, hosting
from tests.http_client import Answer, Peer
from tests.mcp_client import McpClient, client_of, emission
from tests.support import children, until, within

TOKEN_A, TOKEN_B = "a" * 32, "b" * 32
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}}


async def page(host: Host, path: str, method: str = "GET", **headers: str) -> Answer:
    async with McpClient(host.port, path=path) as probe, within():
        peer = await probe.send(method, b"", **headers)
        return await peer.answer(to_head=method == "HEAD")


async def samples(host: Host, **headers: str) -> dict[str, float]:
    """`name{label=value}` without our own label → value; every family is checked by a real parser."""
    answer = await page(host, "/metrics", **headers)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        assert family.documentation and family.type in ("gauge", "counter", "histogram")
        for sample in family.samples:
            assert sample.labels.pop("server") == "test"
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            name = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert name not in found, "a sample is there once"
            found[name.removeprefix("mooring_")] = sample.value
    return found


async def test_metrics_count_what_happened() -> None:
    async with (
        hosting(SCRIPTED, spare=0, max_sessions=2) as host,
        client_of(host.port) as client,
        client_of(host.port) as other,
    ):
        for _ in range(5):
            await client.ask("x/any")
        await client.emit(b"junk", b"more junk")
        refused = await client.raw("POST", client.request("initialize", HELLO), Mcp_Session_Id="")
        assert refused.status == 503
        assert (await client.emit(exit=1))["error"]
        await client.pid()  # on a new process
        held = await client.send("POST", client.request("x/hold", id="h"))
        await until(lambda: len(host.events("session_recovered")) == 1)
        await other.raw("DELETE")
        async with within():
            while (seen := await samples(host))["calls_in_flight"] != 1:
                pass
            while (seen := await samples(host)).get("instances{use=stopping}"):
                pass
        assert seen["calls_total"] == 2 + 5 + 1 + 1 + 1 + 1
        assert seen["calls_failed_total{reason=server_exited}"] == 1
        assert (seen["sessions_opened_total"], seen["sessions_closed_total"]) == (2, 1)
        assert (seen["sessions_recovered_total"], seen["sessions_refused_total"]) == (1, 1)
        assert (seen["server_exits_total"], seen["restarts_total"]) == (1, 1)
        assert seen["junk_lines_total"] == 2
        assert seen["sessions{state=live}"] == 1 and seen["instances{use=serving}"] == 1
        assert seen["state{state=ready}"] == 1 and seen["ready"] == 1
        assert sum(value for name, value in seen.items() if name.startswith("state{")) == 1
        assert seen["call_duration_seconds_count"] == 2 + 5 + 1 + 1
        assert seen["call_duration_seconds_bucket{le=+Inf}"] == 9
        assert 0 < seen["call_duration_seconds_sum"] < 60
        buckets = [value for name, value in seen.items() if "_bucket" in name]
        assert buckets == sorted(buckets)
        assert seen["connections"] >= 1
        await client.emit({"jsonrpc": "2.0", "id": "h", "result": {}})
        async with within():
            await held.answer()


async def test_metrics_tell_what_is_kept_and_what_runs() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        before = await samples(host)
        assert before["held_bytes{of=events}"] == 0 and before["tasks"] >= 1
        stream = await client.stream("POST", client.request("x/emit", emission(note)))
        kept = [len(json.dumps(message).encode()) for message in await stream.rest()]
        held = [asyncio.create_task(asyncio.Event().wait()) for _ in range(20)]
        after = await samples(host)
        assert after["held_bytes{of=events}"] == sum(kept)
        assert after["tasks"] >= before["tasks"] + 10, "fewer of others may run by now, not ten fewer"
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)


async def test_readyz_tells_what_runs_and_livez_that_it_answers() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        pid = await client.pid()
        answer = await page(host, "/readyz")
        seen = json.loads(answer.body)
        assert answer.status == 200 and answer.headers["cache-control"] == "no-store"
        assert (seen["name"], seen["state"], seen["sessions"], seen["calls_in_flight"]) == (
            "test",
            "ready",
            1,
            0,
        )
        assert pid in [one["pid"] for one in seen["instances"] if one["use"] == "serving"]
        assert seen["cause"] is None and seen["last_exit"] is None and seen["restarts"] == 0
        assert all(one["age_s"] >= 0 for one in seen["instances"])
        alive = await page(host, "/livez")
        assert (alive.status, json.loads(alive.body)) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
async def test_head_is_a_get_without_its_body(path: str) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port):
        answer = await page(host, path, "HEAD")
        assert answer.status == 200 and int(answer.headers["content-length"]) > 0


async def test_what_is_not_served_is_said() -> None:
    async with hosting(SCRIPTED) as host:
        assert (await page(host, "/nothing")).status == 404
        wrong = await page(host, "/mcp", "PATCH")
        assert wrong.status == 405 and wrong.headers["allow"] == "DELETE, GET, POST"
        assert (await page(host, "/other/mcp")).status == 404


async def test_the_endpoint_has_the_name_of_the_server_too() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port, path="/test/mcp") as client:
        pid = await client.pid()
        client.path = "/mcp"  # one session under both
        assert await client.pid() == pid


async def test_foreign_hosts_and_origins_are_kept_out_and_probes_are_not() -> None:
    listen: dict[str, Any] = {"allow_hosts": ("mooring.test",), "allow_origins": ("https://app.test",)}
    async with hosting(SCRIPTED, listen=listen) as host, client_of(host.port) as client:
        body = client.request("x/any")
        before = len(await client.heard())
        assert (await client.raw("POST", body, Host="evil.test")).status == 403
        assert (await client.raw("POST", body, Origin="https://evil.test")).status == 403
        assert (await client.raw("POST", body, Origin="null")).status == 403
        assert len(await client.heard()) == before + 1, "nothing reached the server"
        assert (await client.raw("POST", body, Host="mooring.test:4670")).status == 200
        answer = await client.raw("POST", body, Origin="https://app.test")
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.test"
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()
        assert (await page(host, "/livez", Host="10.0.0.7")).status == 200
        assert (await page(host, "/readyz", Host="10.0.0.7")).status in (200, 503)
        assert (await page(host, "/metrics", Host="10.0.0.7")).status == 403


async def test_a_preflight_is_answered_for_allowed_origins_only() -> None:
    async with hosting(SCRIPTED, listen={"allow_origins": ("https://app.test",)}) as host:
        asked = {
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "content-type, mcp-session-id",
        }
        answer = await page(host, "/mcp", "OPTIONS", Origin="https://app.test", **asked)
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == "https://app.test"
        assert answer.headers["access-control-allow-headers"] == "content-type, mcp-session-id"
        assert "DELETE" in answer.headers["access-control-allow-methods"]
        foreign = await page(host, "/mcp", "OPTIONS", Origin="https://evil.test", **asked)
        assert foreign.status == 403 and "access-control-allow-origin" not in foreign.headers


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# ours\nalice {TOKEN_A}\nbob {TOKEN_B}\n")
    path.chmod(0o600)
    return path


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_session_belongs_to_the_token_that_opened_it(tokens: Path) -> None:
    async with hosting(SCRIPTED, listen={"token_file": tokens}) as host:
        async with client_of(host.port, headers=bearing(TOKEN_A)) as alice:
            body = alice.request("x/secret")
            for headers, status in (
                (bearing(TOKEN_B), 404),
                (bearing("c" * 32), 401),
                ({"Authorization": ""}, 401),
            ):
                assert (await alice.raw("POST", body, **headers)).status == status
                assert (await alice.raw("GET", b"", **headers)).status == status
                assert (await alice.raw("DELETE", b"", **headers)).status == status
            assert not any(b"x/secret" in line for line in await alice.heard())
            async with client_of(host.port, headers=bearing(TOKEN_B)) as bob:
                assert await bob.pid() != await alice.pid()
            # The old transport too: another's stream address is nobody's.
            async with McpClient(host.port, path="/sse", headers=bearing(TOKEN_A)) as old:
                first = await (await old.stream()).event()
                assert first is not None
                old.path = first.data
                answer = await old.raw("POST", old.request("ping"), **bearing(TOKEN_B))
                assert answer.status == 404
        assert (await page(host, "/readyz")).status in (200, 503)
        assert (await page(host, "/metrics")).status == 401
        challenge = (await page(host, "/mcp")).headers["www-authenticate"]
        assert challenge.startswith("Bearer")


def options(**listen: Any) -> ForegroundOptions:
    return ForegroundOptions(
        server=ServerOptions(name="test", argv=SCRIPTED, env={"PATH": os.environ["PATH"]}),
        listen=ListenOptions(**{"port": 0, **listen}),
    )


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "short\n", "one two three\n", "a " + "s" * 20 + "\na " + "t" * 20]
)
async def test_a_bad_token_file_is_refused_before_anything_listens(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        await foreground.run(options(token_file=path), Stop(asyncio.get_running_loop().time))
    assert str(path) in caught.value.message
    assert not any(word in caught.value.message for word in ("short", "three", "ssss", "tttt"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--token-file", "TOKENS"], "line 2"),
        (["--host", "0.0.0.0"], "--allow-remote"),
        (["--host", "0.0.0.0", "--allow-remote"], "--token-file"),
        (["--tls-cert", "TOKENS"], "--tls-key"),
        (["--tls-cert", "TOKENS", "--tls-key", "TOKENS"], "TOKENS"),
    ],
)
async def test_wrong_doors_are_exit_2_and_say_no_secret(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    path = tmp_path / "TOKENS"
    path.write_text("good-canary-0123456789\nbad canary-secret words here\n")
    given = [str(path) if word == "TOKENS" else word for word in arguments]
    argv: list[str | Path] = [COMMAND, "run", "--foreground", "x", "--port", "0", *given, "--", *DEMO]
    async with Program(argv, listen_to="stdout", environment=dict(os.environ)) as program:
        assert await program.ended() == 2, program.told()
        told = "\n".join(program.words)
        assert words in told and "canary" not in told and "Traceback" not in told


async def test_open_to_all_is_allowed_and_said() -> None:
    async with hosting(SCRIPTED, listen={"host": "0.0.0.0", "allow_remote": True, "no_auth": True}) as host:
        record = await host.logged("open_to_all")
        assert record.levelname == "WARNING" and "--no-auth" in record.getMessage()
        async with client_of(host.port) as client:
            assert (await client.raw("POST", client.request("x/any"), Host="192.0.2.7")).status == 200
            assert (await client.raw("POST", client.request("x/any"), Host="evil.test")).status == 403


async def test_one_of_several_without_redis_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr("socket.gethostname", lambda: "time-0")
    async with hosting(SCRIPTED) as host:
        for _ in range(2):
            async with client_of(host.port) as client:
                client.session = "a-session-of-another-replica"
                assert (await client.raw("POST", client.request("ping"))).status == 404
        [told] = host.events("replicas_without_redis")
    assert told.levelname == "WARNING" and "--sessions" in told.getMessage()


async def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.private_key_pem.write_to_path(key)
    cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with (
        hosting(SCRIPTED, listen={"tls_cert": cert, "tls_key": key}) as host,
        McpClient(host.port) as client,
    ):
        assert host.url.startswith("https://")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", host.port, ssl=context, server_hostname="localhost"
        )
        peer = Peer(reader, writer)
        peer.send(client.head("POST", client.request("initialize", HELLO)))
        async with within():
            answer = await peer.answer()
            assert answer.status == 200
            client.session = answer.headers["mcp-session-id"]
            peer.send(client.head("POST", client.request("x/pid")))
            assert json.loads((await peer.answer()).body)["result"]["pid"]
        await peer.aclose()


async def test_a_unix_socket_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with hosting(SCRIPTED, listen={"unix": path}) as host, McpClient(0) as client:
        assert host.url == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        peer = Peer(*await asyncio.open_unix_connection(path))
        peer.send(client.head("POST", client.request("initialize", HELLO)))
        async with within():
            assert (await peer.answer()).status == 200
        await peer.aclose()
    assert not path.exists()


ENVIRONMENT = (
    sys.executable,
    "-c",
    r"""
import json, os, sys
print("the canary is " + os.environ.get("CANARY", "absent")[:3], file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"protocolVersion": "2025-11-25", "environment": dict(os.environ), "argv": sys.argv}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
""",
)


@pytest.mark.parametrize("style", ["text", "json"])
async def test_a_secret_is_seen_by_the_child_and_by_nobody_else(tmp_path: Path, style: str) -> None:
    """Pain 14."""
    canary, token = "canary-5f0c7a11-value", "canary-token-90f2b7d4"
    tokens = tmp_path / "tokens"
    tokens.write_text(f"me {token}\n")
    os_environment = {**os.environ, "PASSED": canary, "HIDDEN": "not-declared", "MOORING_DEBUG": "1"}
    variables = tmp_path / "variables"
    variables.write_text(f"FROM_FILE={canary}\n")
    argv: list[str | Path] = [COMMAND, "run", "--foreground", "x", "--port", "0", "--log-format", style]
    argv += ["--log-level", "debug", "--token-file", tokens, "--pass-env", "PASSED", "--env-file", variables]
    argv += ["--", *ENVIRONMENT]
    async with Program(argv, listen_to="nowhere", environment=os_environment) as program:
        async with within():
            line = await program.word(lambda word: "served at" in word)
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        pages = []
        async with client_of(port, headers=bearing(token)) as client:
            seen = await client.result("x/any")
            environment = seen["environment"]
            assert environment["PASSED"] == environment["FROM_FILE"] == canary
            assert "HIDDEN" not in environment and "MOORING_DEBUG" not in environment
            assert canary not in " ".join(seen["argv"])
            for path in ("/metrics", "/readyz", "/nothing"):
                client.path = path
                pages.append(await client.raw("GET"))
            client.path = "/mcp"
            pages.append(await client.raw("POST", b"{" + canary.encode()[:6]))
            pages.append(await client.raw("GET", b"", **bearing(token + "x")))
            for pid in [program.process.pid, *children(program.process.pid)]:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                assert canary.encode() not in command and token.encode() not in command
        program.process.send_signal(signal.SIGTERM)
        assert await program.ended() == 0
        told = "\n".join([*program.words, *map(json.dumps, program.messages)])
    assert "the canary is abs" in told, "what the server itself says is there"
    for text in (told, *(answer.body.decode() for answer in pages)):
        assert canary not in text and token not in text


async def test_only_that_session_fails_when_descriptors_run_out() -> None:
    """While serving: the one that needs a new process is told, others go on, and it recovers."""
    async with running_mooring("--spare", "0", "--log-level", "debug", server=list(SCRIPTED)) as mooring:
        port = int(mooring.url.split(":")[2].split("/")[0])
        async with client_of(port) as working, client_of(port) as victim:
            pid = await working.pid()
            async with within():
                while len((await mooring.get("/readyz"))[1]["instances"]) > 2:
                    pass
            limits = Path(f"/proc/{mooring.pid}/fd")
            before = await _settled(limits)
            await _limit_descriptors(mooring.pid, before + 3)
            async with McpClient(port) as late:
                answer = await late.raw("POST", late.request("initialize", HELLO))
                error = json.loads(answer.body)["error"]
                assert error["data"] == {"reason": "no_resources", "retryable": True}, error
                assert "files" in error["message"] and "failed" in error["message"]
            assert "ulimit -n" in (await mooring.logged("no_resources"))["message"]
            os.kill(await victim.pid(), signal.SIGKILL)
            await mooring.logged("server_exited")
            broken = await victim.ask("x/any")
            assert broken["error"]["data"]["reason"] in ("no_resources", "server_exited")
            for _ in range(10):
                assert await working.pid() == pid, "served all the time"
            await _limit_descriptors(mooring.pid, 4096)
            async with within():
                while "error" in await victim.ask("x/pid"):
                    pass
            assert await working.pid() == pid
            async with client_of(port) as another:
                assert await another.pid()
                await another.raw("DELETE")
            async with within():
                while len((await mooring.get("/readyz"))[1]["instances"]) > 2:
                    pass
            await until(lambda: len(list(limits.iterdir())) <= before + 6)


async def _settled(folder: Path) -> int:
    """The number of entries, once it has stopped changing: connections of before are being closed."""
    seen = [0] * 20
    async with within():
        while len(set(seen)) > 1 or not seen[0]:
            seen = [*seen[1:], len(list(folder.iterdir()))]
            await asyncio.sleep(0.01)
    return seen[0]


async def _limit_descriptors(pid: int, number: int) -> None:
    process = await asyncio.create_subprocess_exec("prlimit", "--pid", str(pid), f"--nofile={number}:4096")
    assert await process.wait() == 0


async def test_a_probe_without_descriptors_looks_again_by_itself() -> None:
    """A host that could not even begin becomes ready when it can: nobody has to ask."""
    async with running_mooring("--spare", "0", server=list(SCRIPTED)) as mooring:
        port = int(mooring.url.split(":")[2].split("/")[0])
        async with client_of(port) as client:
            async with within():
                while len((await mooring.get("/readyz"))[1]["instances"]) > 1:
                    pass
            pid = await client.pid()
            number = len(list(Path(f"/proc/{mooring.pid}/fd").iterdir()))
            await _limit_descriptors(mooring.pid, number - 3)
            os.kill(pid, signal.SIGKILL)
            await mooring.logged("server_exited")
            async with within():
                while (await mooring.get("/readyz"))[1]["state"] != "starting":
                    pass
            await _limit_descriptors(mooring.pid, 4096)
            async with within():
                while (await mooring.get("/readyz"))[0] != 200:
                    pass


async def test_a_signal_that_came_before_the_start_opens_nothing() -> None:
    stop = Stop(time.monotonic)
    stop.request("SIGTERM")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # to open it would fail
        options = ForegroundOptions(
            server=ServerOptions(name="test", argv=DEMO),
            listen=ListenOptions(port=taken.getsockname()[1]),
        )
        async with within():
            assert await foreground.run(options, stop) == 0


async def test_a_message_may_be_as_large_as_was_asked_for() -> None:
    def limits(max_message_bytes: int) -> Limits:
        policy = SessionPolicy(max_message_bytes=max_message_bytes)
        return foreground._limits(ServerOptions(name="test", argv=DEMO, sessions=policy))

    large = limits(1 << 30)
    assert large.max_body_bytes == 1 << 30 < large.max_unfinished_bytes == large.max_unsent_bytes
    assert limits(1000).max_unfinished_bytes == Limits().max_unfinished_bytes
