"""`--transport` without `--url`: from what was given to how a program of ours is spoken to over HTTP.

What is wrong is found by one function, for command lines and for files; each says it in words of its own.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from mooring.cli.running.conflicts import as_option, conflict
from mooring.remote.options import PATHS, ServedOptions

__all__ = ["ONLY_SERVED", "Wrong", "plan_served", "wrong_of_served"]

ONLY_SERVED = frozenset({"container_port", "path", "port_env"})
"""Options that mean nothing to a server that speaks on its pipes, or elsewhere."""


class Wrong(NamedTuple):
    """What does not go together."""

    key: str
    text: str
    hint: str


def plan_served(given: Mapping[str, Any], chosen: Collection[str]) -> ServedOptions | None:
    """None: it speaks otherwise. Raises UserError; for the parameters see `plan.plan_foreground`."""
    said = {name: given[name] for name in chosen}
    if (wrong := wrong_of_served(said, as_option)) is not None:
        raise conflict(wrong.text, wrong.hint)
    if "transport" not in said or said.get("url"):
        return None
    port_env = given["port_env"] or ""
    if port_env in dict(given["env"]):
        raise conflict(f"{port_env} is to be the port, and has a value", "leave the value out")
    transport = given["transport"]
    return ServedOptions(
        transport=transport,
        path=given["path"] or PATHS[transport],
        port_env=port_env,
        container_port=given["container_port"],
    )


def wrong_of_served(said: Mapping[str, Any], spell: Callable[[str], str]) -> Wrong | None:
    """The first thing that is wrong. `said`: by the names of options; `spell`: what they are called there."""
    transport, extra = spell("transport"), next(iter(sorted(ONLY_SERVED & said.keys())), "")
    if "url" in said:
        text = f"{spell(extra)}: means nothing to a server elsewhere"
        return Wrong(extra, text, "leave it out; its URL says where it listens") if extra else None
    if "transport" not in said:
        text = f"{spell(extra)} goes only with {transport}"
        return Wrong(extra, text, f"say how it is spoken to: {transport} http, or sse") if extra else None
    if said["transport"] == "auto":
        text = f"{transport} auto is for servers elsewhere"
        return Wrong("transport", text, f"say how it is spoken to: {transport} http, or sse")
    if said["transport"] not in list(PATHS):
        return None  # whatever it is: that it is none is told by whoever reads it
    return _wrong_of_container(said, spell) if "image" in said else _wrong_of_process(said, spell)


def _wrong_of_process(said: Mapping[str, Any], spell: Callable[[str], str]) -> Wrong | None:
    port_env, container_port = spell("port_env"), spell("container_port")
    if "container_port" in said:
        text = f"{container_port} goes only with an image"
        return Wrong("container_port", text, f"of a process, {port_env} names the variable with its port")
    if not said.get("port_env"):
        text = f"{spell('transport')} needs {port_env}: which variable tells the program its port"
        return Wrong("transport", text, f"for many servers it is {port_env} PORT")
    return None


def _wrong_of_container(said: Mapping[str, Any], spell: Callable[[str], str]) -> Wrong | None:
    port_env, container_port = spell("port_env"), spell("container_port")
    if "port_env" in said:
        text = f"{port_env} does not go with an image, whose program has a port of its own"
        return Wrong("port_env", text, f"say which: {container_port}")
    if not said.get("container_port"):
        text = f"{spell('transport')} needs {container_port}: on which port the program of the image listens"
        return Wrong("transport", text, "its documentation says which; in a Dockerfile it is that of EXPOSE")
    if said.get("network") == "none":
        text = f"without a network nobody can reach {container_port}"
        return Wrong("network", text, f"leave out {spell('network')}, or choose bridge or host")
    return None
