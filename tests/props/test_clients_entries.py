"""Whatever stands in a client's file is understood or said to be odd, and what is unknown in it is kept."""

from hypothesis import given
from hypothesis import strategies as st

from mooring.clients.client import Client
from mooring.clients.editing.edits import Refused, Value
from mooring.clients.entries import Target, entry_for, is_as_wanted, merged
from mooring.clients.table import load_table
from mooring.clients.understanding import servers_in

TABLE = load_table()
TARGET = Target(
    "time", "http://127.0.0.1:4670/time/mcp", ("/opt/mooring", "stdio", "time"), {"MOORING_PORT": "4671"}
)
KNOWN = ["command", "cmd", "args", "env", "envs", "cwd", "url", "httpUrl", "serverUrl", "uri", "headers"]
KNOWN += ["type", "transport", "enabled", "disabled", "name", "requestOptions", "path", "timeout", "tools"]
UNKNOWN = ["autoApprove", "oauth", "note", "x"]


def maps(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[dict[str, Value]]:
    return st.dictionaries(st.sampled_from(KNOWN + UNKNOWN), inner, max_size=5)


clients = st.sampled_from(list(TABLE.values()))
scalars = (
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "npx", "sse", "stdio", "${X}", "http"])
)
values: st.SearchStrategy[Value] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | maps(inner), max_leaves=12
)


@given(clients, maps(values))
def test_an_entry_becomes_as_wanted_and_keeps_what_is_unknown(
    client: Client, there: dict[str, Value]
) -> None:
    wanted = entry_for(client, TARGET)
    new = merged(client, there, wanted)
    assert is_as_wanted(client, new, wanted)
    assert merged(client, new, wanted) == new
    assert {key: new.get(key) for key in UNKNOWN} == {key: there.get(key) for key in UNKNOWN}


@given(clients, st.dictionaries(st.sampled_from(["a", "time"]), values), st.lists(values, max_size=3))
def test_every_entry_is_understood_or_said_to_be_odd(
    client: Client, entries: dict[str, Value], items: list[Value]
) -> None:
    document: Value = items if client.section.is_list else entries
    for key in reversed(client.section.keys):
        document = {key: document}
    found = servers_in(client, document)
    assert len(found) == len(items if client.section.is_list else entries)
    for one in found:
        assert (bool(one.argv), one.url is not None, bool(one.trouble)).count(True) == 1


@given(clients, values)
def test_any_document_has_entries_or_is_refused(client: Client, document: Value) -> None:
    try:
        servers_in(client, document)
    except Refused as refused:
        assert "entries" in str(refused)
