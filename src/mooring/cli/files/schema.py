"""The format, as types: what a file may say of a server.

From these come the checks of a file, the JSON Schema for editors and the table of docs/configuration.md. Keys
that `mooring run` has too mean the same, take the same values and are explained in the same words.
"""

from typing import Annotated, Any, get_args

import click
import msgspec
from msgspec import UNSET, Meta, UnsetType

from mooring.cli.running.run import run
from mooring.remote.options import Transport
from mooring.runtimes.containers.spec import Network, Pull
from mooring.workloads.definition import ClientRefresh

__all__ = ["FIELDS", "RUN_OPTIONS", "File", "Server", "explained", "json_schema"]

RUN_OPTIONS = {
    parameter.name: parameter
    for parameter in run.params
    if isinstance(parameter, click.Option) and parameter.name is not None
}


def _as_run(name: str) -> Meta:
    return Meta(description=RUN_OPTIONS[name].help)


def _one_of(name: str, words: Any) -> Meta:
    """As `mooring run` has it, and one of these: a `Literal`."""
    return Meta(description=RUN_OPTIONS[name].help, extra_json_schema={"enum": list(get_args(words))})


Words = str | list[str]
Span = str | int | float
"""`500ms`, `1.5s`, `30m`, `2h`, or plain seconds."""
Size = str | int
"""`64MiB`, `10MB`, or plain bytes."""


class Server(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """An MCP server, which speaks on stdin and stdout; or over HTTP: with a `url`, or a `transport`."""

    command: Annotated[
        Words | UnsetType,
        Meta(
            description="What is run: a list of words, or one text that is split as a shell would do it. "
            "No shell is used. In JSON a text is the program alone, as AI clients have it.",
            examples=["uvx mcp-server-time", ["npx", "-y", "@modelcontextprotocol/server-memory"]],
        ),
    ] = UNSET
    from_: Annotated[
        str | UnsetType,
        Meta(
            description="In place of `command`: npx:PACKAGE[@VERSION], uvx:PACKAGE[@VERSION] "
            "or python:MODULE.",
            examples=["uvx:mcp-server-time"],
        ),
    ] = UNSET
    image: Annotated[
        str | UnsetType,
        Meta(
            description="In place of `command`: an image, of which containers are run, on Docker or Podman.",
            examples=["ghcr.io/github/github-mcp-server"],
        ),
    ] = UNSET
    url: Annotated[
        str | UnsetType,
        Meta(
            description="In place of `command`: where a server is that runs already, and speaks HTTP.",
            examples=["https://mcp.example.com/mcp"],
        ),
    ] = UNSET
    args: Annotated[
        list[str] | UnsetType,
        Meta(
            description="More words after those of `command` or `from`; with `image`, arguments for its "
            "program."
        ),
    ] = UNSET
    cwd: Annotated[
        str | UnsetType,
        Meta(
            description="Working directory; a relative one begins at the folder of the file: the default. "
            "Not with `image`."
        ),
    ] = UNSET
    env: Annotated[
        dict[str, str] | UnsetType,
        Meta(
            description="Variables for the server, which win over all others. A secret is named, not written."
        ),
    ] = UNSET
    env_file: Annotated[
        Words | UnsetType,
        Meta(
            description="Files of variables, one K=V a line; relative ones begin at the folder of the file."
        ),
    ] = UNSET
    pass_env: Annotated[
        list[str] | UnsetType,
        Meta(description="Names of variables to pass on, of whoever runs `mooring up`."),
    ] = UNSET
    inherit_env: Annotated[
        bool | UnsetType,
        Meta(
            description="Pass on all variables, not only HOME, LOGNAME, PATH, SHELL, TERM and USER. "
            "Not with `image`."
        ),
    ] = UNSET
    volume: Annotated[
        Words | UnsetType,
        Meta(
            description="With `image`: SOURCE:/TARGET[:ro], folders to show to the container, or volumes of "
            "the engine by name; relative ones (./data) begin at the folder of the file.",
            examples=["./data:/data:ro"],
        ),
    ] = UNSET
    network: Annotated[str | UnsetType, _one_of("network", Network)] = UNSET
    memory: Annotated[Size | UnsetType, _as_run("memory")] = UNSET
    cpus: Annotated[str | int | float | UnsetType, _as_run("cpus")] = UNSET
    user: Annotated[str | int | UnsetType, _as_run("user")] = UNSET
    read_only: Annotated[bool | UnsetType, _as_run("read_only")] = UNSET
    pull: Annotated[str | UnsetType, _one_of("pull", Pull)] = UNSET
    engine: Annotated[str | UnsetType, _as_run("engine")] = UNSET
    headers: Annotated[
        dict[str, str] | UnsetType,
        Meta(
            description="With `url`: headers of every request. A secret is named, not written: "
            "`Bearer {secret:NAME}`."
        ),
    ] = UNSET
    transport: Annotated[str | UnsetType, _one_of("transport", Transport)] = UNSET
    port_env: Annotated[str | UnsetType, _as_run("port_env")] = UNSET
    container_port: Annotated[int | UnsetType, _as_run("container_port")] = UNSET
    path: Annotated[str | UnsetType, _as_run("path")] = UNSET
    ca_file: Annotated[str | UnsetType, _as_run("ca_file")] = UNSET
    client_cert: Annotated[str | UnsetType, _as_run("client_cert")] = UNSET
    client_key: Annotated[str | UnsetType, _as_run("client_key")] = UNSET
    max_sessions: Annotated[int | UnsetType, _as_run("max_sessions")] = UNSET
    idle_timeout: Annotated[Span | UnsetType, _as_run("idle_timeout")] = UNSET
    shared: Annotated[bool | int | UnsetType, _as_run("shared")] = UNSET
    spare: Annotated[int | UnsetType, _as_run("spare")] = UNSET
    call_timeout: Annotated[Span | UnsetType, _as_run("call_timeout")] = UNSET
    ping_interval: Annotated[Span | UnsetType, _as_run("ping_interval")] = UNSET
    ping_timeout: Annotated[Span | UnsetType, _as_run("ping_timeout")] = UNSET
    max_message_bytes: Annotated[Size | UnsetType, _as_run("max_message_bytes")] = UNSET
    retry: Annotated[bool | UnsetType, _as_run("retry")] = UNSET
    eof_grace: Annotated[Span | UnsetType, _as_run("eof_grace")] = UNSET
    stop_grace: Annotated[Span | UnsetType, _as_run("stop_grace")] = UNSET
    client_refresh: Annotated[str | UnsetType, _one_of("client_refresh", ClientRefresh)] = UNSET


class File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A file with many MCP servers, for mooring up."""

    servers: Annotated[
        dict[Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")], Server],
        Meta(description="Servers by name: 1 to 40 of a-z, 0-9 and '-', with no '-' at either end."),
    ]


FIELDS = {field.encode_name: field for field in msgspec.structs.fields(Server)}
"""By key, in the order of the page."""


def explained(key: str) -> str:
    """What a key means."""
    kind: Any = FIELDS[key].type
    [meta] = kind.__metadata__
    return str(meta.description)


def json_schema() -> bytes:
    """For editors."""
    schema = msgspec.json.schema(File)
    top = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mooring.toml"}
    return msgspec.json.format(msgspec.json.encode(top | schema), indent=2) + b"\n"
