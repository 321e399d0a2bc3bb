"""A container of a session that other replicas may have, on real engines."""

import asyncio

from mooring.proxy.proxy import TICK_S
from mooring.runtimes.containers.spec import ContainerOptions
from tests.containers.engines import RealEngine
from tests.containers.images import NAME, host_volumes, python
from tests.hosting import SCRIPTED
from tests.mcp_client import client_of
from tests.replicas.stores import Server
from tests.replicas.test_bounds import replica, server
from tests.replicas.test_lapsed import Lapse, lapse
from tests.support import within

__all__ = ["lapse", "server"]


async def test_one_that_is_told_nothing_for_a_while_is_not_given_up(
    server: Server, lapse: Lapse, real_engine: RealEngine
) -> None:
    """What is held back from it, while its session may be another's, it cannot answer."""
    container = ContainerOptions(
        image=NAME, volumes=host_volumes(), network="none", engine=f"unix://{real_engine.socket}"
    )
    pings = {"ping_interval_s": 0.05, "ping_timeout_s": 1.0}
    async with (
        replica(server, argv=python(SCRIPTED[1]), container=container, spare=0, sessions=pings) as host,
        within(60),
        client_of(host.port) as client,
    ):
        stream = await client.stream()  # so it is looked at with every tick
        before = await client.heard()
        lapse.is_on = True
        await asyncio.sleep(2 * pings["ping_timeout_s"] + 8 * TICK_S)
        assert not host.events("server_given_up")
        lapse.is_on = False
        assert (await client.heard())[: len(before)] == before, "it is the same"
        stream.reset()
