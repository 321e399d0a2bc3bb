"""Where things are on a machine: templates such as `{home}/.cursor/mcp.json` become paths.

Pure: a machine is its platform, a home and an environment, so that the paths of every platform can be worked
out on any of them. A template that cannot be filled in (`{appdata}` on Linux) has no path there.

    {home}           the user's home
    {xdg_config}     $XDG_CONFIG_HOME, or {home}/.config
    {dot_config}     {xdg_config} on Linux, {home}/.config elsewhere: for programs that have it everywhere
    {appsupport}     {home}/Library/Application Support, on macOS
    {appdata}        %APPDATA%, on Windows; {localappdata} likewise
    {config}         where programs with windows keep theirs: {xdg_config}, {appsupport} or {appdata}
    {code}           the folder `User` of VS Code and of each editor made from it: several paths
    {project}        the folder of a project
    {value}          what an environment variable says
    {pointed}        what a file says that a program leaves where it is looked for
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple

__all__ = ["CODE_EDITORS", "FIELDS", "Machine", "Platform", "fields_of"]

CODE_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
"""Editors that take extensions of VS Code, by the names of their folders."""

FIELDS = frozenset(
    {
        "home",
        "xdg_config",
        "dot_config",
        "appsupport",
        "appdata",
        "localappdata",
        "config",
        "code",
        "project",
        "value",
        "pointed",
    }
)
_FIELD = re.compile(r"\{(\w+)\}")


class Platform(StrEnum):
    """What paths depend on."""

    LINUX = "linux"
    MACOS = "macos"
    WINDOWS = "windows"


class Machine(NamedTuple):
    """What has to be known of a machine to say where a file is."""

    platform: Platform
    home: Path
    environment: Mapping[str, str]

    @classmethod
    def this(cls, environment: Mapping[str, str]) -> "Machine":
        """Of this process; its home is what the environment says."""
        names = {"darwin": Platform.MACOS, "win32": Platform.WINDOWS}
        platform = names.get(sys.platform, Platform.LINUX)
        home = environment.get("USERPROFILE" if platform is Platform.WINDOWS else "HOME")
        return cls(platform, Path(home) if home else Path.home(), environment)

    def paths(
        self,
        templates: Sequence[str],
        project: Path | None = None,
        *,
        value: str | None = None,
        pointed: str | None = None,
    ) -> list[PurePath]:
        """The paths of templates, in their order, each once; those that cannot be filled in are left out."""
        places = self._places()
        given = {"project": project and str(project), "value": value, "pointed": pointed}
        places.update({name: text for name, text in given.items() if text})
        flavour = PureWindowsPath if self.platform is Platform.WINDOWS else PurePosixPath
        texts = (text for template in templates for text in _for_each_editor(template))
        filled = (flavour(_filled(text, places)) for text in texts if fields_of(text) <= places.keys())
        return list(dict.fromkeys(path for path in filled if path.is_absolute()))

    def _places(self) -> dict[str, str]:
        home = str(self.home)
        dot_config = f"{home}/.config"
        xdg_config = self._absolute("XDG_CONFIG_HOME") or dot_config
        places = {"home": home, "xdg_config": xdg_config, "dot_config": dot_config}
        match self.platform:
            case Platform.LINUX:
                return places | {"dot_config": xdg_config, "config": xdg_config}
            case Platform.MACOS:
                support = f"{home}/Library/Application Support"
                return places | {"appsupport": support, "config": support}
            case Platform.WINDOWS:
                roaming = self._absolute("APPDATA") or f"{home}/AppData/Roaming"
                local = self._absolute("LOCALAPPDATA") or f"{home}/AppData/Local"
                return places | {"appdata": roaming, "localappdata": local, "config": roaming}

    def _absolute(self, variable: str) -> str | None:
        """What a variable says, if that is a path that means the same everywhere."""
        flavour = PureWindowsPath if self.platform is Platform.WINDOWS else PurePosixPath
        text = self.environment.get(variable, "")
        return text if flavour(text).is_absolute() else None


def fields_of(template: str) -> set[str]:
    """The names between braces."""
    return set(_FIELD.findall(template))


def _filled(template: str, places: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda field: places[field[1]], template)


def _for_each_editor(template: str) -> Iterator[str]:
    if "{code}" not in template:
        yield template
        return
    for editor in CODE_EDITORS:
        yield template.replace("{code}", f"{{config}}/{editor}/User")
