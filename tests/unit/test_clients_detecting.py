"""Which clients are here, and which of their files counts, by looking whether something is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.clients.client import Client
from mooring.clients.detecting import is_installed, old_sites, project_site, user_site, why_no_site
from mooring.clients.machine import Machine, Platform
from mooring.clients.table import load_table

TABLE = load_table()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def machine(home: Path, **environment: str) -> Machine:
    return Machine(Platform.LINUX, home, environment)


def made(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def place(client: Client, machine: Machine) -> Path | None:
    site = user_site(client, machine)
    return site.path if site else None


def test_nothing_is_installed_in_an_empty_home(home: Path) -> None:
    nothing = machine(home, PATH=str(home))
    everywhere = [path for client in TABLE.values() for path in client.detect.paths if path.startswith("/")]
    assert not any(Path(path).exists() for path in everywhere), "this machine has clients of its own"
    assert [client.id for client in TABLE.values() if is_installed(client, nothing)] == []


@pytest.mark.parametrize(
    "client", [one for one in TABLE.values() if one.detect.paths], ids=lambda one: one.id
)
def test_a_client_is_installed_when_one_of_its_paths_is_there(client: Client, home: Path) -> None:
    here = machine(home)
    for path in here.paths([path for path in client.detect.paths if path.startswith("{")]):
        Path(path).mkdir(parents=True)
        assert is_installed(client, here)
        Path(path).rmdir()
        assert not is_installed(client, here)


def test_a_client_is_installed_when_its_program_is_found(home: Path) -> None:
    program = made(home / "bin/claude")
    assert not is_installed(TABLE["claude-code"], machine(home, PATH=str(home / "bin"))), "it cannot be run"
    program.chmod(0o755)
    assert is_installed(TABLE["claude-code"], machine(home, PATH=str(home / "bin")))
    assert not is_installed(TABLE["claude-code"], machine(home))


def test_a_client_is_installed_where_its_variable_leads(home: Path) -> None:
    home.mkdir()
    elsewhere = machine(home, CODEX_HOME=str(home / "codex"))
    assert not is_installed(TABLE["codex"], elsewhere)
    (home / "codex").mkdir()
    assert is_installed(TABLE["codex"], elsewhere)


def test_what_two_clients_share_tells_of_neither(home: Path) -> None:
    (home / ".gemini").mkdir(parents=True)
    (home / ".codeium").mkdir()
    here = machine(home)
    names = ("gemini-cli", "antigravity", "windsurf", "windsurf-jetbrains")
    assert [name for name in names if is_installed(TABLE[name], here)] == []


def test_a_folder_that_may_not_be_looked_into_tells_nothing(home: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may look everywhere")
    (home / ".config/Code/User").mkdir(parents=True)
    (home / ".config").chmod(0)
    try:
        assert not is_installed(TABLE["vscode"], machine(home))
    finally:
        (home / ".config").chmod(0o700)


LOOKING = """
import sys
from pathlib import Path
from mooring.clients.detecting import is_installed, old_sites, user_site
from mooring.clients.machine import Machine, Platform
from mooring.clients.table import load_table

home = sys.argv[1]
table = load_table().values()

def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(home):
        print(arguments[0])

sys.addaudithook(hook)
machine = Machine(Platform.LINUX, Path(home), {"PATH": home})
sites = [user_site(client, machine) for client in table if is_installed(client, machine)]
old = [site for client in table for site in old_sites(client, machine)]
print(len(sites), None in sites, len(old))
"""


def test_no_file_of_a_client_is_opened(home: Path) -> None:
    here = machine(home)
    for client in TABLE.values():
        for path in here.paths([*client.files[Platform.LINUX], *(old.file for old in client.legacy)]):
            made(Path(path))
    made(home / ".lmstudio-home-pointer")
    run = [sys.executable, "-c", LOOKING, str(home)]
    *opened, last = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    sites, is_any_missing, old = last.split()
    assert (int(sites) > 45, is_any_missing, int(old) > 10) == (True, "False", True)
    # The one exception is no file of settings: it says where LM Studio is.
    assert set(opened) == {str(home / ".lmstudio-home-pointer")}


def test_the_first_file_that_is_there_counts(home: Path) -> None:
    opencode, here = TABLE["opencode"], machine(home)
    folder = home / ".config/opencode"
    assert place(opencode, here) == folder / "opencode.json", "the one to create"
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        made(folder / name)
        assert place(opencode, here) == folder / name


def test_a_link_that_leads_nowhere_is_there(home: Path) -> None:
    folder = home / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").symlink_to(home / "dotfiles/opencode.jsonc")
    assert place(TABLE["opencode"], machine(home)) == folder / "opencode.jsonc"


def test_an_extension_has_its_file_in_the_editor_that_has_it(home: Path) -> None:
    roo, here = TABLE["roo-code"], machine(home)
    storage = "User/globalStorage/rooveterinaryinc.roo-cline/settings"
    assert place(roo, here) == home / ".config/Code" / storage / "mcp_settings.json"
    (home / ".config/Cursor" / storage).mkdir(parents=True)
    assert place(roo, here) == home / ".config/Cursor" / storage / "mcp_settings.json"


def test_the_windows_package_of_claude_desktop_has_its_own_folder(tmp_path: Path) -> None:
    # On a disk that is not of Windows; what counts is which folder is there.
    client = TABLE["claude-desktop"]
    windows = Machine(Platform.WINDOWS, Path("C:/Users/ada"), {})
    package, plain = windows.paths(client.files[Platform.WINDOWS])
    assert "Packages" in str(package)
    assert [str(path) for path in windows.paths(client.create)] == [str(plain)]


def test_a_variable_says_where_a_file_is(home: Path) -> None:
    elsewhere = machine(home, CLAUDE_CONFIG_DIR=str(home / "work"))
    made(home / ".claude.json")
    assert place(TABLE["claude-code"], elsewhere) == home / "work/.claude.json"


def test_the_first_of_several_variables_counts(home: Path) -> None:
    both = machine(home, CLINE_DIR="/two", CLINE_MCP_SETTINGS_PATH="/one/settings.json")
    assert place(TABLE["cline"], both) == Path("/one/settings.json")


@pytest.mark.parametrize("value", ["", "relative", "https://example.com/x"])
def test_a_variable_that_names_no_path_is_ignored(home: Path, value: str) -> None:
    assert place(TABLE["claude-code"], machine(home, CLAUDE_CONFIG_DIR=value)) == home / ".claude.json"


def test_an_old_file_counts_until_the_client_has_moved(home: Path) -> None:
    cline, here = TABLE["cline"], machine(home)
    new = home / ".cline/data/settings/cline_mcp_settings.json"
    assert place(cline, here) == new
    storage = home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
    old = made(storage / "cline_mcp_settings.json")
    assert place(cline, here) == old
    (home / ".cline/data").mkdir(parents=True)
    assert place(cline, here) == new
    assert [site.path for site in old_sites(cline, here)] == [old]


def test_a_pointer_leads_to_the_file(home: Path) -> None:
    studio, here = TABLE["lm-studio"], machine(home)
    made(home / ".lmstudio-home-pointer", f"{home}/models/lmstudio\n")
    assert place(studio, here) == home / ".lmstudio/mcp.json", "nothing is there yet"
    (home / "models/lmstudio").mkdir(parents=True)
    assert place(studio, here) == home / "models/lmstudio/mcp.json"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"relative/path", b"/x" * 5000, b"/a\0b"])
def test_a_pointer_that_leads_nowhere_is_ignored(home: Path, content: bytes) -> None:
    home.mkdir()
    (home / ".lmstudio-home-pointer").write_bytes(content)
    assert place(TABLE["lm-studio"], machine(home)) == home / ".lmstudio/mcp.json"


@pytest.mark.parametrize("what", ["pipe", "folder", "circle"])
def test_a_pointer_that_is_no_file_is_ignored(home: Path, what: str) -> None:
    pointer = home / ".lmstudio-home-pointer"
    home.mkdir()
    if what == "pipe":
        os.mkfifo(pointer)
    elif what == "folder":
        pointer.mkdir()
    else:
        pointer.symlink_to(pointer)
    assert place(TABLE["lm-studio"], machine(home)) == home / ".lmstudio/mcp.json"


def test_a_client_that_is_not_for_this_platform_has_no_file(home: Path) -> None:
    here = machine(home)
    assert user_site(TABLE["boltai"], here) is None
    assert why_no_site(TABLE["boltai"], here) == "BoltAI has no file on linux"


def test_a_client_whose_file_may_be_anywhere_must_be_told(home: Path) -> None:
    here = machine(home)
    assert user_site(TABLE["librechat"], here) is None
    assert "set CONFIG_PATH" in why_no_site(TABLE["librechat"], here)
    told = machine(home, CONFIG_PATH="/srv/chat/librechat.yaml")
    assert place(TABLE["librechat"], told) == Path("/srv/chat/librechat.yaml")


def test_a_new_file_does_not_take_the_place_of_one_of_another_kind(home: Path) -> None:
    client, here = TABLE["continue"], machine(home)
    assert place(client, here) == home / ".continue/config.yaml"
    made(home / ".continue/config.json")
    assert user_site(client, here) is None
    assert str(home / ".continue/config.json") in why_no_site(client, here)
    made(home / ".continue/config.yaml")
    assert place(client, here) == home / ".continue/config.yaml"


def test_old_files_and_other_candidates_that_are_there_are_looked_at(home: Path) -> None:
    opencode = TABLE["opencode"]
    folder = home / ".config/opencode"
    names = ("opencode.jsonc", "opencode.json", "config.json")
    first, *others = (made(folder / name) for name in names)
    assert [site.path for site in old_sites(opencode, machine(home))] == others
    moved = machine(home, OPENCODE_CONFIG=str(home / "mine.json"))
    assert [site.path for site in old_sites(opencode, moved)] == [first, *others]


def test_an_old_file_is_read_as_it_was_written(home: Path) -> None:
    old = home / ".config/Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"
    made(old, '{"mcpServers": {"time": {}}}')
    [site] = old_sites(TABLE["kilo-code"], machine(home))
    assert (site.path, site.client.id, site.client.format) == (old, "kilo-code", "json")
    assert site.client.editor.remove(old.read_bytes(), site.client.section, "time") == b'{"mcpServers": {}}'


def test_a_project_has_a_file_of_its_own(tmp_path: Path) -> None:
    site = project_site(TABLE["cursor"], tmp_path)
    assert site and (site.path, site.project) == (tmp_path / ".cursor/mcp.json", tmp_path)
    assert project_site(TABLE["windsurf"], tmp_path) is None


def test_the_file_of_a_project_that_is_there_counts(tmp_path: Path) -> None:
    site = project_site(TABLE["opencode"], tmp_path)
    assert site and site.path == tmp_path / "opencode.json", "the one to create"
    there = made(tmp_path / ".opencode/opencode.json")
    site = project_site(TABLE["opencode"], tmp_path)
    assert site and site.path == there
