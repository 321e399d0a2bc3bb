"""A conversation by whichever transport a server speaks."""

from collections.abc import Callable
from typing import Literal

from mooring.http.client import Client
from mooring.remote.conversation import Conversation, Outlet
from mooring.remote.endpoint import Credentials, Endpoint
from mooring.remote.old_endpoint import OldEndpoint
from mooring.remote.old_sse import OldSseConversation
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire.failures import Failure
from mooring.wire.http import Headers
from mooring.wire.mirrored import MarkedTools

__all__ = ["converse"]


def converse(
    transport: Literal["http", "sse"],
    client: Client,
    target: str,
    credentials: Credentials,
    *,
    reach: Reach,
    outlet: Outlet,
    policy: RemotePolicy,
    on_outcome: Callable[[Failure | None], None],
    tools: MarkedTools,
    also: Callable[[], Headers] = list,
) -> Conversation:
    """With the server at that target; `tools`: what all who speak with it know of its tools.

    `also`: see `Endpoint`.
    """
    if transport == "sse":
        old = OldEndpoint(client, target, credentials, policy, also=also)
        return OldSseConversation(old, reach, outlet, policy, on_outcome)
    endpoint = Endpoint(client, target, credentials, policy, also=also)
    return Conversation(endpoint, reach, outlet, policy, on_outcome, tools=tools)
