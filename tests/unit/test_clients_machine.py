"""Templates become paths, for every platform on any of them."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from mooring.clients.machine import CODE_EDITORS, FIELDS, Machine, Platform, fields_of

ADA = Path("/home/ada")
WINDOWS = Machine(Platform.WINDOWS, Path("C:/Users/ada"), {})


def linux(**environment: str) -> Machine:
    return Machine(Platform.LINUX, ADA, environment)


def test_a_home_is_what_the_environment_says(tmp_path: Path) -> None:
    assert Machine.this({"HOME": str(tmp_path)}).home == tmp_path


def test_a_home_is_known_without_a_word_of_the_environment() -> None:
    assert Machine.this({}).home == Path("~").expanduser()


def test_the_configuration_folder_can_be_moved() -> None:
    assert linux().paths(["{xdg_config}/x"]) == [PurePosixPath("/home/ada/.config/x")]
    assert linux(XDG_CONFIG_HOME="/etc/ada").paths(["{xdg_config}/x"]) == [PurePosixPath("/etc/ada/x")]


@pytest.mark.parametrize("value", ["", "config", "./config"])
def test_a_configuration_folder_that_is_not_absolute_is_ignored(value: str) -> None:
    # As the XDG Base Directory Specification has it.
    assert linux(XDG_CONFIG_HOME=value).paths(["{xdg_config}/x"]) == [PurePosixPath("/home/ada/.config/x")]


def test_programs_that_have_dot_config_everywhere_hear_of_xdg_on_linux_only() -> None:
    moved = {"XDG_CONFIG_HOME": "/etc/ada"}
    assert linux(**moved).paths(["{dot_config}"]) == [PurePosixPath("/etc/ada")]
    assert Machine(Platform.MACOS, ADA, moved).paths(["{dot_config}"]) == [PurePosixPath("/home/ada/.config")]


def test_each_platform_has_its_own_place_for_programs_with_windows() -> None:
    assert linux().paths(["{config}"]) == [PurePosixPath("/home/ada/.config")]
    mac = Machine(Platform.MACOS, Path("/Users/ada"), {})
    assert mac.paths(["{config}"]) == [PurePosixPath("/Users/ada/Library/Application Support")]
    assert WINDOWS.paths(["{config}"]) == [PureWindowsPath("C:/Users/ada/AppData/Roaming")]


def test_the_folders_of_windows_can_be_moved() -> None:
    moved = WINDOWS._replace(environment={"APPDATA": "D:\\roaming", "LOCALAPPDATA": "D:\\local"})
    paths = moved.paths(["{appdata}/x", "{localappdata}/x"])
    assert paths == [PureWindowsPath("D:/roaming/x"), PureWindowsPath("D:/local/x")]


def test_what_a_platform_has_not_is_left_out() -> None:
    templates = ["{appdata}/x", "{appsupport}/x", "{home}/x", "{project}/x", "{value}/x", "{pointed}/x"]
    assert linux().paths(templates) == [PurePosixPath("/home/ada/x")]


def test_what_is_given_is_filled_in() -> None:
    templates = ["{project}/x", "{value}/x", "{pointed}/x"]
    paths = linux().paths(templates, Path("/p"), value="/v", pointed="/q")
    assert paths == [PurePosixPath("/p/x"), PurePosixPath("/v/x"), PurePosixPath("/q/x")]


def test_paths_of_another_platform_and_relative_ones_are_left_out() -> None:
    assert linux().paths(["C:/Program Files/x", "/Applications/x"]) == [PurePosixPath("/Applications/x")]
    assert WINDOWS.paths(["/Applications/x"]) == []
    assert linux().paths(["{value}"], value="https://example.com/librechat.yaml") == []


def test_braces_in_a_name_are_not_filled_in_again() -> None:
    machine = Machine(Platform.LINUX, Path("/home/{config}"), {})
    assert machine.paths(["{home}/x"]) == [PurePosixPath("/home/{config}/x")]


def test_each_editor_has_a_path_and_each_path_is_there_once() -> None:
    paths = linux().paths(["{code}/x", "{config}/Code/User/x"])
    assert paths == [PurePosixPath(f"/home/ada/.config/{editor}/User/x") for editor in CODE_EDITORS]


def test_every_field_that_is_known_can_be_filled_in_somewhere() -> None:
    machines = [
        Machine(platform, ADA if platform != Platform.WINDOWS else WINDOWS.home, {}) for platform in Platform
    ]
    for field in FIELDS:
        template = f"{{{field}}}/x"
        assert fields_of(template) == {field}
        assert any(machine.paths([template], Path("/p"), value="/v", pointed="/q") for machine in machines), (
            field
        )
