"""The table as it is shipped is right, and one that is not is refused by name."""

import subprocess
import sys
from typing import Any

import pytest
import yaml

from mooring.clients.client import EXPANSIONS, Client, HttpShape, StdioShape, keys_of
from mooring.clients.editing.edits import Refused, Section
from mooring.clients.machine import Platform
from mooring.clients.table import TABLE, Broken, by_hand, load_table, table_from

LEAST: dict[str, Any] = {
    "id": "quay",
    "name": "Quay",
    "kind": "cli",
    "confidence": "low",
    "files": "{home}/.quay.json",
    "detect": {},
}


def read(*rows: dict[str, Any]) -> dict[str, Client]:
    return dict(table_from(yaml.safe_dump({"clients": list(rows)}).encode()))


def quay(**more: Any) -> Client:
    return read({**LEAST, **more})["quay"]


def test_the_table_that_is_shipped_is_right() -> None:
    table = load_table()
    assert len(table) >= 52
    assert all(client.id == name for name, client in table.items())
    assert len({client.name for client in table.values()}) == len(table)


def test_the_table_is_read_once() -> None:
    assert load_table() is load_table()


def test_every_client_can_be_found_unless_it_must_be_told_where() -> None:
    assert [one.id for one in load_table().values() if not any(one.files.values())] == ["librechat"]
    assert [one.id for one in load_table().values() if one.detect == type(one.detect)()] == ["librechat"]


def test_a_client_is_either_in_the_table_or_edited_by_hand() -> None:
    assert by_hand()
    assert not by_hand().keys() & load_table().keys()


def test_a_client_that_compares_says_how_long_it_takes_to_notice() -> None:
    # Taken out and put back at once, the entry would be what it was.
    for client in load_table().values():
        if client.reload.may_notice:
            assert 0.5 <= client.reload.settle_s <= 5, client.id


def test_what_is_usual_is_left_out() -> None:
    client = quay()
    assert (client.format, client.section) == ("jsonc", Section(("mcpServers",)))
    assert client.files == dict.fromkeys(Platform, ("{home}/.quay.json",))
    assert (client.http, client.stdio) == (HttpShape(), StdioShape())
    assert (client.reload.mode, client.reload.settle_s, client.project) == ("unknown", 2.0, None)


def test_a_file_may_differ_by_platform() -> None:
    client = quay(files={"linux": ["{home}/a", "{home}/b"], "windows": "{appdata}/c"})
    assert client.files == {
        Platform.LINUX: ("{home}/a", "{home}/b"),
        Platform.MACOS: (),
        Platform.WINDOWS: ("{appdata}/c",),
    }


def test_a_client_may_be_like_one_above() -> None:
    table = read({**LEAST, "section": "/a", "notes": ["x"]}, {"like": "quay", "id": "pier", "name": "Pier"})
    assert table["pier"].section == Section(("a",))
    assert (table["pier"].name, table["quay"].name) == ("Pier", "Quay")


def test_a_pointer_is_keys() -> None:
    assert keys_of("/mcp/servers") == ("mcp", "servers")
    assert keys_of("/amp.mcpServers") == ("amp.mcpServers",)
    assert keys_of("/a~1b/c~0d") == ("a/b", "c~d")
    assert keys_of("headers") == ("headers",)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sections": "/x"}, "unknown field `sections`"),
        ({"id": "Quay"}, "an id is"),
        ({"id": "quay_1"}, "an id is"),
        ({"kind": "boat"}, "boat"),
        ({"confidence": "sure"}, "sure"),
        ({"format": "ini"}, "ini"),
        ({"section": "mcpServers"}, "no pointer to a section"),
        ({"section": "/a//b"}, "no pointer to a section"),
        ({"section": "/"}, "no pointer to a section"),
        ({"other_section": "servers"}, "no pointer to a section"),
        ({"http": None, "stdio": None}, "no entry"),
        ({"http": {"headers": "/a/"}}, "no pointer to headers"),
        ({"http": {"uri": "x"}}, "unknown field `uri`"),
        ({"stdio": {"argv": "both"}}, "both"),
        ({"files": []}, "no file on any platform"),
        ({"files": {"amiga": "{home}/x"}}, "amiga"),
        ({"files": "{hone}/x"}, "has hone, which is not known"),
        ({"files": "{project}/x"}, "has project, which is not known"),
        ({"files": "{value}/x"}, "has value, which is not known"),
        ({"files": ".quay.json"}, "not absolute"),
        ({"files": "{pointed}/x"}, "go together"),
        ({"pointer_file": "{home}/pointer"}, "go together"),
        ({"env_override": {"QUAY": "{valu}/x"}}, "has valu"),
        ({"legacy": ["{old}/x"]}, "has old"),
        ({"legacy": [{"file": "{home}/x", "format": "ini"}]}, "ini"),
        ({"legacy": [{"file": "{home}/x"}], "legacy_unless": "{home}/y"}, "of the same form"),
        ({"legacy_unless": "{old}/x", "legacy": ["{home}/x"]}, "has old"),
        ({"not_beside": "{old}/x"}, "has old"),
        ({"project": ["{home}/x"]}, "has home"),
        ({"project": {"files": ["{project}/x"], "trusted": "y"}}, "unknown field `trusted`"),
        ({"detect": {"paths": ["{old}/x"]}}, "has old"),
        ({"detect": {"globs": []}}, "unknown field `globs`"),
        ({"create": ["{home}/other.json"]}, "no candidate"),
        ({"expands": ["<NAME>"]}, "no expansion"),
        ({"reload": "sometimes"}, "sometimes"),
        ({"reload": {"mode": "watch", "debounce": 1}}, "unknown field `debounce`"),
        ({"reload": {"mode": "watch", "notices": "nothing"}}, "nothing"),
        ({"like": "pier"}, "there is no pier above it"),
    ],
)
def test_a_client_that_is_not_right_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(Broken) as refused:
        quay(**more)
    message = str(refused.value)
    assert message.startswith(f"{more.get('id', 'quay')}: ")
    assert says in message or f"Invalid enum value '{says}'" in message


def test_an_id_is_there_once() -> None:
    with pytest.raises(Broken, match="quay: there are two"):
        read(LEAST, LEAST)


def test_a_client_has_an_id() -> None:
    with pytest.raises(Broken, match="a client without an id"):
        read({key: value for key, value in LEAST.items() if key != "id"})


def test_a_table_has_clients_and_nothing_unknown() -> None:
    with pytest.raises(Broken, match="clients"):
        table_from(b"by_hand: {}")
    with pytest.raises(Broken, match="others"):
        table_from(b"clients: []\nothers: []")


def test_every_expansion_finds_what_it_is_named_for() -> None:
    import re

    for name, pattern in EXPANSIONS.items():
        assert re.fullmatch(pattern, name), name


def test_a_new_document_begins_with_its_seed_and_an_old_one_stays() -> None:
    client = quay(format="yaml", seed="schema: v1\n")
    new = client.editor.put(b"\n", client.section, "time", {"url": "u"})
    assert client.editor.read(new) == {"schema": "v1", "mcpServers": {"time": {"url": "u"}}}
    old = client.editor.put(b"model: x\n", client.section, "time", {"url": "u"})
    assert client.editor.read(old) == {"model": "x", "mcpServers": {"time": {"url": "u"}}}
    assert client.editor.remove(b"", client.section, "time") == b""


def test_a_document_of_another_version_is_not_edited() -> None:
    client = quay(section="/mcp", other_section="/mcp/servers")
    for document in (b'{"mcp": {"servers": {"a": {"type": "remote"}}}}', b'{"mcp": {"servers": {}}}'):
        with pytest.raises(Refused, match='"mcp" → "servers"'):
            client.editor.put(document, client.section, "time", {"url": "u"})
    named_so = b'{"mcp": {"servers": {"type": "remote", "url": "x"}}}'
    assert b"time" in client.editor.put(named_so, client.section, "time", {"url": "u"})


def test_clients_can_be_keys() -> None:
    assert len({client: client.id for client in load_table().values()}) == len(load_table())


def test_what_reads_yaml_is_loaded_with_the_table_and_not_before() -> None:
    code = (
        "import sys\n"
        "import mooring.clients.table, mooring.clients.entries, mooring.clients.detecting\n"
        "print('yaml' in sys.modules)\n"
        "table = mooring.clients.table.load_table()\n"
        "print('yaml' in sys.modules, 'mooring.clients.editing.yaml' in sys.modules)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "True", "False"]


def test_the_table_is_part_of_the_package() -> None:
    assert TABLE.parent.name == "clients"
    assert TABLE.is_file()
