"""`docs/clients.md`: prose, and between two marks what the table of clients says.

python -m tests.clients_page --write
"""

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from mooring.clients.client import Client
from mooring.clients.detecting import candidates
from mooring.clients.entries import Target, entry_for, what_next
from mooring.clients.machine import CODE_EDITORS, Machine, Platform
from mooring.clients.table import by_hand, load_table

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs/clients.md"
BEGIN = "<!-- made by python -m tests.clients_page --write -->\n"
END = "<!-- until here -->\n"

TARGET = Target("NAME", "URL", ("/…/mooring", "stdio", "NAME"))
PLATFORMS = {Platform.LINUX: "Linux", Platform.MACOS: "macOS", Platform.WINDOWS: "Windows"}
HOME = "/HOME"
SHOWN = {
    Platform.LINUX: {},
    Platform.MACOS: {},
    Platform.WINDOWS: {"C:/HOME/AppData/Roaming": "%APPDATA%", "C:/HOME/AppData/Local": "%LOCALAPPDATA%"},
}
FORMATS = {"json": "JSON", "jsonc": "JSON, comments kept", "json5": "JSON5", "toml": "TOML", "yaml": "YAML"}
BY_ITSELF = {
    "watch": "yes",
    "watch_prompt": "yes, asks first",
    "poll": "yes",
    "command": "no",
    "session": "new session",
    "restart": "restart",
    "unknown": "unknown",
}


def page(text: str) -> str:
    """The page with what the table says now."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the marks are gone"
    return f"{before}{BEGIN}\n{_generated()}\n{END}{after}"


def _generated() -> str:
    clients = load_table().values()
    lines = [
        "| name here | client | given | notices by itself | sure |",
        "|---|---|---|---|---|",
        *(_row(client) for client in clients),
        "",
        *(line for client in clients for line in _section(client)),
        "### By hand",
        "",
        "These have no file that could be edited:",
        "",
        *(f"- {name}: {where}" for name, where in by_hand().items()),
        "",
    ]
    return "\n".join(lines)


def _row(client: Client) -> str:
    given = "URL" if client.http else "command"
    link = f"[{client.name}](#{_anchor(client)})"
    noticed = BY_ITSELF[client.reload.mode]
    return f"| `{client.id}` | {link} | {given} | {noticed} | {client.confidence} |"


def _anchor(client: Client) -> str:
    return "".join(
        letter for letter in client.name.lower().replace(" ", "-") if letter.isalnum() or letter == "-"
    )


def _section(client: Client) -> Iterator[str]:
    yield f"### {client.name}"
    yield ""
    yield f"`{client.id}`, {FORMATS[client.format]}."
    yield ""
    yield from (f"- {line}" for line in _facts(client))
    yield ""


def _facts(client: Client) -> Iterator[str]:
    yield from _places(client)
    for name, template in client.env_override.items():
        yield f"${name}, if set: {_code(template.replace('{value}', f'${name}'))}"
    if client.project:
        files = _or(template.removeprefix("{project}/") for template in client.project.files)
        trust = f"; {client.project.trust}" if client.project.trust else ""
        yield f"In a project: {files}{trust}"
    if client.legacy:
        yield f"Removed from, too: {_or(_old(client))}"
    yield f"Entry: {_code(_entry(client))}"
    yield f"After a change: {what_next(client, is_project=False)}{_compares(client)}"
    yield from client.notes


def _places(client: Client) -> Iterator[str]:
    shown = {name: _or(_shown(client, platform)) for platform, name in PLATFORMS.items()}
    for paths, names in groupby(shown, key=lambda name: shown[name]):
        if paths:
            yield f"{', '.join(names)}: {paths}"


def _shown(client: Client, platform: Platform) -> list[str]:
    home = "C:/HOME" if platform is Platform.WINDOWS else HOME
    paths = [path.as_posix() for path in candidates(client, Machine(platform, Path(home), {}))]
    return _without_editors([_short(path, platform, home) for path in paths])


def _old(client: Client) -> list[str]:
    paths = Machine(Platform.LINUX, Path(HOME), {}).paths([place.file for place in client.legacy])
    return _without_editors([_short(path.as_posix(), Platform.LINUX, HOME) for path in paths])


def _short(path: str, platform: Platform, home: str) -> str:
    for folder, name in (SHOWN[platform] | {home: "~"}).items():
        path = path.replace(folder, name)
    return path


def _without_editors(paths: list[str]) -> list[str]:
    """Each editor made from VS Code has the same file: they are not told one by one."""
    first, *others = CODE_EDITORS
    told = [path for path in paths if not any(f"/{editor}/User/globalStorage" in path for editor in others)]
    return [path.replace(f"/{first}/User/globalStorage", "/EDITOR/User/globalStorage") for path in told]


def _entry(client: Client) -> str:
    value = entry_for(client, TARGET)
    section = " → ".join(client.section.keys)
    text = json.dumps(value, ensure_ascii=False)
    if client.section.is_list:
        return f'{section}: [{{"{client.section.name_key}": "NAME", {text[1:-1]}}}]'
    return f"{section} → NAME: {text}"


def _compares(client: Client) -> str:
    return ". What is written again as it was is not noticed" if client.reload.on == "content" else ""


def _or(paths: Iterator[str] | list[str]) -> str:
    return ", else ".join(_code(path) for path in paths)


def _code(text: str) -> str:
    return f"`{text}`"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clients_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring docs/clients.md up to date")
    options = parser.parse_args()
    current = page(PAGE.read_text())
    if options.write:
        PAGE.write_text(current)
    else:
        print(current, end="")


if __name__ == "__main__":
    main()
