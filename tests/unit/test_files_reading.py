"""What is wrong with a file, and where: to the character."""

import pytest

from mooring.cli.files.offsets import Place, json_offsets, place_at, toml_offsets, without_comments
from mooring.cli.files.reading import BadFile, entries_of, parse

TOML_REFUSALS = {
    "not TOML": (
        '[servers.time]\ncommand = "uvx\n',
        ["2:15: not TOML: Illegal character '\\n'"],
    ),
    "ends too early": ('[servers.time]\nargs = ["x"', ["2:12: not TOML: Unclosed array"]),
    "no servers": ("# nothing\n", ["1:1: it names no servers"]),
    "other tables": (
        '[mcpServers.time]\ncommand = "x"\n[other]\n',
        ["1:2: mcpServers is not known", "3:2: other is not known"],
    ),
    "servers are no table": ("servers = 3\n", ["1:1: servers is not a table of servers by name"]),
    "a server is no table": ("[servers]\ntime = 3\n", ["2:1: time is not a table"]),
    "unknown keys": (
        '[servers.time]\ncommand = "x"\n\n  idle-timeout = "1h"\ncolour = "red"\n',
        ["4:3: idle-timeout is not known; did you mean idle_timeout?", "5:1: colour is not known"],
    ),
    "wrong types": (
        '[servers.time]\ncommand = 3\nargs = ["a", 4]\nretry = "yes"\nspare = 1.5\nshared = []\ncwd = {}\n',
        [
            "2:1: command takes text or a list of texts, not a whole number",
            "3:14: args takes text, not a whole number",
            "4:1: retry takes true or false, not text",
            "5:1: spare takes a whole number, not a number",
            "6:1: shared takes true or false or a whole number, not a list",
            "7:1: cwd takes text, not a table",
        ],
    ),
    "values of variables": (
        "[servers.time]\ncommand = 'x'\nenv = { A = 'a', B = 8080 }\n",
        ["3:18: the value of B is not text; put it in quotes"],
    ),
    "names": (
        '[servers."My Server"]\ncommand = "x"\n[servers.api]\ncommand = "x"\n',
        [
            "1:10: 'My Server' cannot be a name; use 1 to 40 of a-z, 0-9 and '-', with no '-' at either end",
            "3:10: 'api' is part of Mooring's own URLs; choose another name",
        ],
    ),
    "two ways": (
        '[servers.a]\ncommand = "x"\nfrom = "uvx:x"\n[servers.b]\nargs = []\n',
        ["3:1: command and from are two ways to say the same; keep one of them", "4:10: b has no command"],
    ),
    "images and other ways": (
        '[servers.a]\nimage = "x"\ncommand = "y"\n[servers.b]\nfrom = "uvx:x"\nimage = "y"\n',
        [
            "2:1: command and image are two ways to say the same; keep one of them",
            "6:1: from and image are two ways to say the same; keep one of them",
        ],
    ),
    "for containers alone": (
        '[servers.a]\ncommand = "x"\nvolume = ["/a:/b"]\nread_only = false\nmemory = "1GiB"\n',
        [
            "3:1: volume goes only with an image",
            "4:1: read_only goes only with an image",
            "5:1: memory goes only with an image",
        ],
    ),
    "not for containers": (
        '[servers.a]\nimage = "x"\ncwd = "/"\ninherit_env = true\n'
        '[servers.b]\nimage = "x"\ninherit_env = false\n',
        [
            "3:1: cwd does not go with image: a container begins in the folder of its image",
            "4:1: inherit_env does not go with image: a container has the environment of its image",
        ],
    ),
    "wrong types of containers": (
        '[servers.a]\nimage = ["x"]\nvolume = ["/a:/b", 3]\nread_only = "yes"\ncpus = true\nmemory = 1.5\n',
        [
            "2:1: image takes text, not a list",
            "3:20: volume takes text, not a whole number",
            "4:1: read_only takes true or false, not text",
            "5:1: cpus takes a whole number or a number or text, not true or false",
            "6:1: memory takes a whole number or text, not a number",
        ],
    ),
    "plural": (
        '[servers.a]\nimage = "x"\nvolumes = []\n',
        ["3:1: volumes is not known; did you mean volume?"],
    ),
    "elsewhere and here": (
        '[servers.a]\nurl = "https://x"\ncommand = "y"\n',
        ["2:1: command and url are two ways to say the same; keep one of them"],
    ),
    "for a program, of one elsewhere": (
        '[servers.a]\nurl = "https://x"\nargs = ["y"]\ncwd = "/"\nenv = {A = "b"}\n',
        [
            "3:1: args means nothing to a server elsewhere",
            "4:1: cwd means nothing to a server elsewhere",
            "5:1: env means nothing to a server elsewhere",
        ],
    ),
    "for one elsewhere, of a program": (
        '[servers.a]\ncommand = "y"\nheaders = {A = "b"}\nca_file = "c"\n',
        ["3:1: headers goes only with a url", "4:1: ca_file goes only with a url"],
    ),
    "over HTTP, and no port": (
        '[servers.a]\ncommand = "y"\ntransport = "http"\n',
        ["3:1: transport needs port_env: which variable tells the program its port"],
    ),
    "over HTTP, and a port of an image": (
        '[servers.a]\ncommand = "y"\ntransport = "http"\ncontainer_port = 80\n',
        ["4:1: container_port goes only with an image"],
    ),
    "an image over HTTP, and no port": (
        '[servers.a]\nimage = "y"\ntransport = "sse"\n',
        ["3:1: transport needs container_port: on which port the program of the image listens"],
    ),
    "an image over HTTP, and a variable": (
        '[servers.a]\nimage = "y"\ntransport = "sse"\nport_env = "PORT"\n',
        ["4:1: port_env does not go with an image, whose program has a port of its own"],
    ),
    "an image over HTTP that nobody reaches": (
        '[servers.a]\nimage = "y"\ntransport = "http"\ncontainer_port = 80\nnetwork = "none"\n',
        ["5:1: without a network nobody can reach container_port"],
    ),
    "a path of a server on its pipes": (
        '[servers.a]\ncommand = "y"\npath = "/mcp"\n',
        ["3:1: path goes only with transport"],
    ),
    "a path beside that of a URL": (
        '[servers.a]\nurl = "https://x"\npath = "/mcp"\n',
        ["3:1: path: means nothing to a server elsewhere"],
    ),
    "one of ours that is to be found out": (
        '[servers.a]\ncommand = "y"\ntransport = "auto"\nport_env = "PORT"\n',
        ["3:1: transport auto is for servers elsewhere"],
    ),
}
JSON_REFUSALS = {
    "a server is no object": ('{"servers": {"a": 1}}', ["1:14: a is not an object"]),
    "not JSON": ('{"mcpServers": {\n  "time": }\n}', ["2:11: not JSON: Expecting value"]),
    "no object": ("[]", ["1:1: not an object with mcpServers"]),
    "no servers": ('{"theme": "dark"}', ["1:1: it names no servers"]),
    "both": (
        '{"servers": {}, "mcpServers": {}}',
        ["1:2: both mcpServers and servers are there; keep one of them"],
    ),
    "twice": (
        '{"mcpServers": {"a": {"command": "x"},\n "a": {"command": "y"}}}',
        ["2:2: a is there twice"],
    ),
    "nearly known": (
        '{"mcpServers": {"a": {\n  // what is run\n  "comand": "x"}}}',
        ["1:17: a has no command", "3:3: comand is not known; did you mean command?"],
    ),
    "images": (
        '{"servers": {"a": {"image": "x",\n "command": "y"}, "b": {"command": "x",\n "network": "none"}}}',
        [
            "1:20: command and image are two ways to say the same; keep one of them",
            "3:2: network goes only with an image",
        ],
    ),
    "wrong types": (
        '{"servers": {"a": {"command": "x",\n "args": "y"}}}',
        ["2:2: args takes a list of texts, not text"],
    ),
}


def refusal(text: str, *, is_json: bool) -> BadFile:
    try:
        reading = entries_of(parse(text, "file", is_json=is_json))
    except BadFile as error:
        return error
    return BadFile("file", reading.problems)


def refused(text: str, *, is_json: bool) -> list[str]:
    caught = refusal(text, is_json=is_json)
    assert caught.message.startswith("file:")
    return [f"{one.place.line}:{one.place.column}: {one.text}" for one in caught.problems]


@pytest.mark.parametrize(("text", "expected"), TOML_REFUSALS.values(), ids=TOML_REFUSALS)
def test_toml_that_is_refused(text: str, expected: list[str]) -> None:
    assert refused(text, is_json=False) == expected


@pytest.mark.parametrize(("text", "expected"), JSON_REFUSALS.values(), ids=JSON_REFUSALS)
def test_json_that_is_refused(text: str, expected: list[str]) -> None:
    assert refused(text, is_json=True) == expected


@pytest.mark.parametrize("is_json", [True, False])
def test_what_is_nested_too_deeply_is_refused(is_json: bool) -> None:
    text = '{"a": ' + "[" * 100_000 if is_json else "a = " + "[" * 100_000
    assert "nested too deeply" in refused(text, is_json=is_json)[0]


def test_a_name_that_cannot_be_is_corrected() -> None:
    text = '{"mcpServers": {"Brave_Search": {"command": "x"}}}'
    assert refusal(text, is_json=True).hint == "for example: brave-search"


@pytest.mark.parametrize("said", ["1", "{}"])
def test_hints_are_in_the_language_of_the_file(said: str) -> None:
    assert '"command": "uvx"' in refusal(f'{{"servers": {{"a": {said}}}}}', is_json=True).hint
    assert 'command = "uvx' in refusal(f"[servers]\na = {said}\n", is_json=False).hint


def test_hints_say_what_to_do_about_images() -> None:
    both = refusal('[servers.a]\nimage = "x"\ncommand = "y"\n', is_json=False)
    assert both.hint == "an image has a program of its own; what is to follow it are args"
    without = refusal('[servers.a]\ncommand = "y"\nuser = "me"\n', is_json=False)
    assert without.hint == "add image, or leave user out"
    nothing = refusal("[servers.a]\n", is_json=False)
    assert nothing.hint.endswith(', or image = "IMAGE"; or where it runs already: url = "https://…"')


def test_null_in_json_is_as_good_as_not_there() -> None:
    one, other = '{"image": "x", "command": null, "cwd": null}', '{"command": "x", "user": null}'
    text = f'{{"servers": {{"a": {one}, "b": {other}}}}}'
    reading = entries_of(parse(text, "file", is_json=True))
    assert not reading.problems
    assert [entry.values for entry in reading.entries] == [{"image": "x"}, {"command": "x"}]


def test_what_only_ai_clients_know_is_left_to_them_and_told() -> None:
    text = """{
        // of VS Code
        "inputs": [],
        "servers": {
            "time": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"], "cwd": null,
                     "envFile": ".env", "alwaysAllow": ["x"]},
            "linear": {"type": "http", "url": "https://mcp.linear.app/mcp"},
            "old": {"command": "x", "disabled": true,},
        },
    }"""
    entries, _, notes = entries_of(parse(text, "file", is_json=True))
    [time, linear] = entries
    assert linear.values == {"url": "https://mcp.linear.app/mcp"}
    assert time.values == {"command": "uvx", "args": ["mcp-server-time"], "env_file": ".env"}
    assert [(note.place.line, note.text) for note in notes] == [
        (6, "alwaysAllow means nothing to Mooring"),
        (8, "old is left out: it is disabled"),
    ]


def test_places_are_those_of_the_keys() -> None:
    text = """# c
[servers."a b".env] # x
A.b = "x"
"q\\u0041" = [1, [2, "]"], {z = 1, y = \"\"\" " ] \"\"\"}] # c
[servers.b]
c = { d = 1 , e.f = 2}
[[more]]
x = 1979-05-27 07:32:00
"""
    found = {keys: text[at : at + 3] for keys, at in toml_offsets(text).items()}
    assert found["servers", "a b"] == '"a ' and found["servers", "a b", "env"] == "env"
    assert found["servers", "a b", "env", "A", "b"] == "b ="
    assert (
        found["servers", "a b", "env", "qA"] == '"q\\' and found["servers", "a b", "env", "qA", 1, 1] == '"]"'
    )
    assert found["servers", "a b", "env", "qA", 2, "y"] == "y ="
    assert found["servers", "b", "c", "e", "f"] == "f =" and found["more", "x"] == "x ="
    assert place_at(text, text.index("[[more]]")) == Place(7, 1)
    assert place_at("", 0) == Place(1, 1)


def test_comments_of_json_are_blanked_out_and_nothing_moves() -> None:
    text = '{"a": "// no", /* , */ "b": [1, 2, // x\n], "c": "/*",}'
    bare = without_comments(text)
    assert len(bare) == len(text)
    assert bare == '{"a": "// no",         "b": [1, 2      \n], "c": "/*" }'
    assert json_offsets(bare)[0]["c",] == text.index('"c"')
    assert without_comments('{"a": /* never closed') == '{"a":                '
