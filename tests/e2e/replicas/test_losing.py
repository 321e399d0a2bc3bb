"""A replica goes: in peace, by force, or for a while. No session ends, and no call is executed twice."""

import asyncio
import json
import os
import signal
from typing import Any

from tests.e2e.mooring import DEMO, LINUX_ONLY, Mooring, running_mooring
from tests.e2e.replicas.fleet import Fleet, Roaming, port_of, running_fleet
from tests.e2e.replicas.test_routing import gauge
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.replicas.stores import Server
from tests.support import suspend, within

pytestmark = LINUX_ONLY

LEASE = ("--lease", "3s")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
ASKS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask"}


async def test_a_session_goes_on_when_its_replica_ends(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        await client.initialize()
        before = (await client.mark("before"))["result"]["pid"]
        owner.signal(signal.SIGTERM)
        client.go_only_to(other)
        answers = [await client.mark(f"m{n}") for n in range(5)]
        assert all(answer["result"]["pid"] != before for answer in answers[1:])
        assert await owner.ended() == 0
        assert (await client.mark("after"))["result"]["mark"] == "after"
        assert set(ledger.marks().values()) == {1}


async def test_a_call_that_waits_for_a_replica_that_ends_is_served_by_the_next(
    store: Server, ledger: Ledger
) -> None:
    """Another call of its session is cut at the deadline; of the one that waited, nothing was done so far."""
    # With a long lease: while Redis is late, nobody can say that nothing was done.
    drain = ("--drain-timeout", "8s")
    async with running_fleet(2, store, ledger.command, *drain) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        long = client.request("x/mark", {"mark": "long", "delay_s": 120})
        calling = asyncio.create_task(client.raw("POST", long))
        async with within():
            while not ledger.has("long"):
                await asyncio.sleep(0.02)
        owner.exit_status = 3
        owner.signal(signal.SIGTERM)
        await owner.logged("draining")
        client.go_only_to(other)
        async with within():
            answer = await client.mark("waited")
        assert answer["result"]["mark"] == "waited"
        assert json.loads((await calling).body)["error"]["data"]["reason"] == "shutting_down"
        assert await owner.ended() == 3
        assert ledger.marks() == {"long": 1, "waited": 1}


async def test_what_comes_to_a_replica_that_drains_is_passed_on(store: Server, ledger: Ledger) -> None:
    """A balancer goes on for some seconds: sessions, and those that only begin, are served by the other."""
    options = ("--drain-delay", "4s")
    async with running_fleet(2, store, ledger.command, *options) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        here = (await client.mark("before"))["result"]["pid"]
        owner.signal(signal.SIGTERM)
        await owner.logged("draining")
        async with within():
            while (await client.mark(f"m{len(ledger.marks())}"))["result"]["pid"] == here:
                await asyncio.sleep(0.02)
        async with Roaming(fleet.ports) as newcomer:
            newcomer.go_only_to(owner)
            await newcomer.initialize()
            assert (await newcomer.mark("new"))["result"]["mark"] == "new"
            assert await owner.ended() == 0
            newcomer.go_only_to(other)
            assert (await newcomer.mark("new-too"))["result"]["mark"] == "new-too"
    assert set(ledger.marks().values()) == {1}


async def test_a_call_that_runs_is_finished_where_it_runs(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        await client.initialize()
        client.go_only_to(other)  # which passes it on
        calling = asyncio.create_task(client.mark("long", 2.0))
        async with within():
            while not ledger.has("long"):
                await asyncio.sleep(0.01)
        owner.signal(signal.SIGTERM)
        await owner.logged("draining")
        behind = asyncio.create_task(client.mark("behind"))
        assert (await calling)["result"]["mark"] == "long"
        assert (await behind)["result"]["mark"] == "behind"
        assert await owner.ended() == 0
    assert ledger.marks() == {"long": 1, "behind": 1}


async def test_a_killed_replica_loses_no_session(store: Server, ledger: Ledger) -> None:
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        owner.exit_status = -signal.SIGKILL
        await client.initialize()
        client.go_only_to(other)
        calling = asyncio.create_task(client.mark("cut", 60.0))
        async with within():
            while not ledger.has("cut"):
                await asyncio.sleep(0.01)
        owner.signal(signal.SIGKILL)
        async with within():
            error = (await calling)["error"]
            assert error["data"] == {"reason": "replica_lost", "retryable": False}
            answer = await served(client, "after")
        assert answer["result"]["mark"] == "after"
        assert all(count == 1 for count in ledger.marks().values())


async def test_no_call_of_a_batch_that_is_lost_is_told_to_be_sent_again(
    store: Server, ledger: Ledger
) -> None:
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        owner.exit_status = -signal.SIGKILL
        client.go_only_to(owner)
        hello = {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = await client.raw("POST", client.request("initialize", hello))
        client.session, client.version = opened.headers["mcp-session-id"], "2025-03-26"
        await client.notify("notifications/initialized")
        client.go_only_to(other)
        calls = [
            client.request("x/mark", {"mark": "cut", "delay_s": 60}, id="a"),
            client.request("ping", id="b"),
        ]
        calling = asyncio.create_task(client.raw("POST", b"[%b]" % b",".join(calls)))
        async with within():
            while not ledger.has("cut"):
                await asyncio.sleep(0.01)
        owner.signal(signal.SIGKILL)
        async with within():
            answer = await calling
        assert (answer.status, "retry-after" in answer.headers) == (200, False)
        told = {one["id"]: one["error"]["data"] for one in json.loads(answer.body)}
        assert told == {
            "a": {"reason": "replica_lost", "retryable": False},
            "b": {"reason": "replica_lost", "retryable": True},
        }
    assert ledger.marks() == {"cut": 1}


async def test_that_a_message_of_http_sse_is_lost_is_told_where_its_client_looks(
    store: Server, ledger: Ledger
) -> None:
    """Answers come on its stream: of what a message is answered with, clients read the status."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        async with McpClient(port_of(owner), path="/sse") as client:
            endpoint = await (await client.stream()).event()
            assert endpoint is not None
            client.path, client.port = endpoint.data, port_of(other)
            hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
            assert (await client.raw("POST", client.request("initialize", hello))).status == 202
            await suspend(owner.pid)
            try:
                answer = await client.raw("POST", client.request("x/mark", {"mark": "stuck"}))
            finally:
                os.kill(owner.pid, signal.SIGCONT)
        assert (answer.status, "retry-after" in answer.headers) == (502, False)
        assert json.loads(answer.body)["error"]["data"] == {"reason": "replica_lost", "retryable": False}
        await is_ready(owner)


async def test_a_stopped_replica_is_not_waited_for_although_redis_has_lost_its_name(
    store: Server, ledger: Ledger
) -> None:
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        client.go_only_to(other)
        await client.mark("before")  # which knows where from now on
        await suspend(owner.pid)
        try:
            calling = asyncio.create_task(client.mark("stuck"))
            async with within():
                while not await gauge(other, "mooring_requests_under_way_elsewhere"):
                    await asyncio.sleep(0.01)
            await lose_all(store)
            async with within():
                error = (await calling)["error"]
        finally:
            os.kill(owner.pid, signal.SIGCONT)
        assert error["data"] == {"reason": "replica_lost", "retryable": False}
        await is_ready(owner)


async def lose_all(store: Server) -> None:
    reader, writer = await asyncio.open_connection(store.host, store.port)
    writer.write(b"FLUSHALL\r\n")
    assert await reader.readline() == b"+OK\r\n"
    writer.close()


async def served(client: Roaming, mark: str) -> dict[str, Any]:
    """The first answer that is one: until a lease has run out, calls may be told that nobody is there."""
    for n in range(100):
        answer = await client.raw(
            "POST", client.request("x/mark", {"mark": mark if not n else f"{mark}-{n}"})
        )
        if answer.status == 200 and "result" in (said := json.loads(answer.body)):
            said["result"]["mark"] = mark
            return said  # type: ignore[no-any-return]
        assert answer.status in (200, 503), answer
        await asyncio.sleep(0.1)
    raise AssertionError("never served")


async def test_a_replica_that_was_stopped_does_nothing_when_it_wakes(store: Server, ledger: Ledger) -> None:
    """What lay in its buffers when its lease was taken is not executed by it; and each call at most once."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        here = (await client.mark("before"))["result"]["pid"]
        await suspend(owner.pid)
        stuck = await client.send("POST", client.request("x/mark", {"mark": "stuck"}))
        client.go_only_to(other)
        async with within():
            taken = await served(client, "taken")
        assert taken["result"]["pid"] != here
        os.kill(owner.pid, signal.SIGCONT)
        async with within():
            woken = json.loads((await stuck.answer()).body)
        # It may be passed on to whoever has the session now, but it does not reach the old server.
        executed = ledger.marks()
        assert "result" not in woken or woken["result"]["pid"] != here
        assert all(count == 1 for count in executed.values()), executed
        assert not pids_of(ledger, "stuck") & {here}
        await client.mark("after")
        await is_ready(owner)


def pids_of(ledger: Ledger, mark: str) -> set[int]:
    lines = [line.split() for line in ledger._path.read_text().splitlines()]
    return {int(pid) for pid, what in lines if what == mark}


async def is_ready(replica: Mooring) -> None:
    async with within():
        while (await replica.get("/readyz"))[0] != 200:
            await asyncio.sleep(0.05)


async def test_a_stream_is_gone_on_with_at_another_replica(store: Server, ledger: Ledger) -> None:
    """The owner ends while nobody reads: what it had stored is there at the next one."""
    async with running_fleet(2, store, ledger.command) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize(capabilities={"roots": {}})
        stream = await client.stream("POST", client.request("x/ask", {"mark": "asked"}))
        first = await stream.event()
        while first is not None and not first.data:
            first = await stream.event()
        assert first is not None
        question = json.loads(first.data)
        stream.reset()
        await client.respond(question["id"], {"roots": []})
        async with within():
            while not ledger.has("asked"):
                await asyncio.sleep(0.01)
        owner.signal(signal.SIGTERM)
        assert await owner.ended() == 0
        client.go_only_to(other)
        rest = await client.stream("GET", Last_Event_ID=first.id or "")
        assert [message.get("result", {}).get("mark") for message in await rest.rest()] == ["asked"]


async def test_a_call_that_is_lost_with_its_replica_is_told_on_its_stream(
    store: Server, ledger: Ledger
) -> None:
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        owner, other = fleet.replicas
        owner.exit_status = -signal.SIGKILL
        client.go_only_to(owner)
        await client.initialize(capabilities={"roots": {}})
        stream = await client.stream("POST", client.request("x/ask", {"mark": "asked"}, id="lost"))
        event = await stream.event()
        while event is not None and not event.data:
            event = await stream.event()
        assert event is not None
        owner.signal(signal.SIGKILL)
        await owner.ended()
        client.go_only_to(other)
        async with within():
            rest = await client.stream("GET", Last_Event_ID=event.id or "")
            (told,) = await rest.rest()
        assert told["id"] == "lost"
        assert told["error"]["data"]["reason"] == "replica_lost"


async def test_an_answer_of_the_client_reaches_a_replica_that_ends(store: Server, ledger: Ledger) -> None:
    """It has a call that waits for it; whoever takes the answer is another replica."""
    options = ("--drain-delay", "0s")
    async with running_fleet(2, store, ledger.command, *options) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize(capabilities={"roots": {}})
        stream = await client.stream("POST", client.request("x/ask", {"mark": "asked"}))
        question = await stream.message()
        owner.signal(signal.SIGTERM)
        await owner.logged("draining")
        await asyncio.sleep(1.5)  # the delay is long over, and so is the second in which idle ones are closed
        client.go_only_to(other)
        await client.respond(question["id"], {"roots": []})
        assert [message["result"]["mark"] for message in await stream.rest()] == ["asked"]
        assert await owner.ended() == 0
    assert ledger.marks() == {"asked": 1}


async def test_a_call_that_waited_at_a_replica_that_is_gone_is_told_so(store: Server) -> None:
    """Revision 2026-07-28: what the client sends back names it; nobody else knows what it had done."""
    async with running_fleet(2, store, DEMO, *LEASE) as fleet, Roaming(fleet.ports, headers=ASKS) as client:
        await fleet.know_each_other()
        holder, other = fleet.replicas
        client.go_only_to(holder)
        params = {"name": "ask", "arguments": {"message": "who?"}, "_meta": META}
        asked = (await client.ask("tools/call", params))["result"]
        holder.exit_status = -signal.SIGKILL
        holder.signal(signal.SIGKILL)
        await holder.ended()
        client.go_only_to(other)
        again = {**params, "inputResponses": {}, "requestState": asked["requestState"]}
        error = (await client.ask("tools/call", again))["error"]
        assert error["data"] == {"reason": "replica_lost", "retryable": False}
        assert "may have been executed" in error["message"] and "without requestState" in error["message"]
        assert (await client.ask("tools/call", params))["result"]["resultType"] == "input_required"


async def test_a_call_of_a_session_that_gave_way_before_is_not_executed_twice(
    store: Server, ledger: Ledger
) -> None:
    """That its owner let go of it once, and has had it again since, says nothing of the call."""
    options = (*LEASE, "--idle-timeout", "1s", "--max-sessions", "1")
    async with running_fleet(2, store, ledger.command, *options) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        client.go_only_to(other)
        await client.mark("known")  # from now on the other knows where
        await give_way(fleet, owner)
        assert (await client.mark("back"))["result"]["mark"] == "back"
        calling = asyncio.create_task(client.mark("cut", 60.0))
        async with within():
            while not ledger.has("cut"):
                await asyncio.sleep(0.01)
        owner.exit_status = -signal.SIGKILL
        owner.signal(signal.SIGKILL)
        async with within():
            error = (await calling)["error"]
        assert error["data"] == {"reason": "replica_lost", "retryable": False}
    assert ledger.marks() == {"known": 1, "back": 1, "cut": 1}


async def give_way(fleet: Fleet, replica: Mooring) -> None:
    """It has room for one: somebody comes, for whom the one that it has must go as soon as it sleeps."""
    async with Roaming(fleet.ports) as newcomer:
        newcomer.go_only_to(replica)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        async with within():
            while (answer := await newcomer.raw("POST", newcomer.request("initialize", hello))).status != 200:
                await asyncio.sleep(0.1)
        newcomer.session = answer.headers["mcp-session-id"]
        assert (await newcomer.raw("DELETE")).status == 204


async def test_where_a_dead_replica_was_somebody_else_may_be(store: Server, ledger: Ledger) -> None:
    """Its address is soon another's, who knows nothing of its sessions."""
    async with running_fleet(2, store, ledger.command, *LEASE) as fleet, Roaming(fleet.ports) as client:
        await fleet.know_each_other()
        owner, other = fleet.replicas
        client.go_only_to(owner)
        await client.initialize()
        client.go_only_to(other)
        await client.mark("known")
        owner.exit_status = -signal.SIGKILL
        owner.signal(signal.SIGKILL)
        await owner.ended()
        port = str(port_of(owner))
        place = ("--port", port, "--advertise", f"http://127.0.0.1:{port}", "--sessions", store.url)
        async with running_mooring(*place, server=ledger.command, name="stranger"):
            await is_alone(other)
            assert (await client.mark("after"))["result"]["mark"] == "after"
    assert ledger.marks() == {"known": 1, "after": 1}


async def is_alone(replica: Mooring) -> None:
    """Until the lease of all others has run out."""
    async with within():
        while (await replica.get("/readyz"))[1]["replicas"]["others"]:
            await asyncio.sleep(0.05)
