"""What there is, asked of the daemon."""

import msgspec

from mooring.api.client import ApiClient
from mooring.cli.files.difference import Known
from mooring.cli.servers.telling import Json
from mooring.workloads.definition import load_options

__all__ = ["known_servers"]


def known_servers(client: ApiClient) -> dict[str, Known]:
    """By name."""
    servers = {server["name"]: server for server in client.ask("GET", "/servers")}
    told = client.ask("GET", "/definitions")
    return {one["name"]: _one_known(one, servers.get(one["name"])) for one in told}


def _one_known(told: Json, server: Json | None) -> Known:
    options = None if told["options"] is None else load_options(msgspec.json.encode(told["options"]))
    is_down = server is not None and (server["desired"] == "stopped" or server["state"] == "failed")
    return Known(told["name"], told["origin"], options, is_down)
