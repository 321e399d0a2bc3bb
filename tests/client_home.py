"""A home with files of AI clients in it, and a registry for it: real files, private to a test."""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mooring.clients.detecting import Site
from mooring.clients.entries import Target
from mooring.clients.machine import Machine, Platform
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.registry import Registry

__all__ = ["CLIENTS", "ClientHome", "changes", "target"]

CLIENTS = ("cursor", "vscode", "codex", "goose", "continue", "claude-desktop")
"""One of each kind: JSON, JSON with comments, TOML, YAML, YAML with a list, and one of commands only."""

FOREIGN = {
    "cursor": '{\n  "mcpServers": {\n    "other": {"command": "npx", "env": {"T": "hush-hush"}}\n  }\n}\n',
    "vscode": '{\n\t// mine\n\t"servers": {\n\t\t"other": {"url": "http://h/", /* keep */ },\n\t},\n}\n',
    "codex": '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "npx" # keep\n',
    "goose": "# mine\nextensions:\n  other:\n    type: stdio\n    cmd: npx   # keep\nGOOSE_MODE: auto\n",
    "continue": "name: me\nversion: 1.0.0\nschema: v1\nmcpServers:\n- name: other\n  command: npx # keep\n",
    "claude-desktop": '{"mcpServers": {"other": {"command": "npx"}}, "theme": "dark"}',
}
"""What somebody else has in the file of a client."""


def target(name: str = "notes", port: int = 4737) -> Target:
    return Target(name, f"http://127.0.0.1:{port}/{name}/mcp", ("/opt/mooring/bin/mooring", "stdio", name))


def changes(outcomes: list[Outcome]) -> list[Change]:
    return [outcome.change for outcome in outcomes]


class ClientHome(NamedTuple):
    """`state` and `home` are folders of the test."""

    state: Path
    home: Path

    @classmethod
    def at(cls, folder: Path) -> "ClientHome":
        (folder / "home").mkdir(parents=True, exist_ok=True)
        return cls(folder / "state" / "clients", folder / "home")

    @property
    def machine(self) -> Machine:
        return Machine(Platform.LINUX, self.home, {})

    def registry(self) -> Registry:
        """A new one each time, as each command has."""
        return Registry(self.state, self.machine)

    def site(self, client: str) -> Site:
        return self.registry().site(client)

    def write(self, client: str, text: str | None = None) -> Path:
        """Have that in the client's file; without a text, what somebody else might have there."""
        path = self.site(client).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((FOREIGN[client] if text is None else text).encode())
        return path

    def data(self, client: str) -> Any:
        """What the file says, by a reader that is not ours where there is one."""
        site = self.site(client)
        if not site.path.exists():
            return {}
        text = site.path.read_text()
        match site.client.format:
            case "json":
                return json.loads(text)
            case "toml":
                return tomllib.loads(text)
            case "yaml":
                return yaml.safe_load(text)
        return site.client.editor.read(text.encode())

    def entries(self, client: str) -> dict[str, Any]:
        """The entries of the file's section, by name."""
        section = self.site(client).client.section
        value = self.data(client)
        for key in section.keys:
            value = (value or {}).get(key)
        if section.is_list:
            return {one["name"]: one for one in value or []}
        return value or {}

    def states(self) -> dict[tuple[str, str], str]:
        """How the entries of ours stand, by client and server."""
        return {
            (standing.client, entry.server): entry.state
            for standing in self.registry().standings()
            for entry in standing.entries
        }
