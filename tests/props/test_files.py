"""Of any file and whatever there is: a plan makes it true, touches nothing else, and leaves nothing to do."""

import json
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.files.definitions import define
from mooring.cli.files.difference import Action, Known, Plan, plan_up
from mooring.cli.files.offsets import Keys, json_offsets, nearest, toml_offsets, without_comments
from mooring.cli.files.reading import parse
from mooring.cli.files.secret_looks import looks_secret, word_looks_secret
from mooring.cli.files.writing import as_json, as_toml, written
from mooring.cli.values import CPUS_FLOOR, LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES, parse_user
from mooring.proxy.policy import SessionPolicy
from mooring.runtimes.containers.spec import ContainerOptions, Volume
from mooring.runtimes.stopping import StopPatience
from mooring.workloads.definition import Borrowed, ServerOptions, same_request

FILE = "/here/mooring.toml"
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = st.sampled_from(["a", "b", "c", "d-1", "e"])
SPANS = st.integers(0, 10**7).map(lambda ms: ms / 1000)
REFERENCES = st.sampled_from([{}, {"API_TOKEN": "secret:x"}, {"H": "Bearer {file:/a ${b}} {env:C}"}])
SURROUNDINGS = st.dictionaries(st.sampled_from(["HOME", "PATH", "TERM"]), TEXTS)


def is_user(text: str) -> bool:
    try:
        return parse_user(text) == text
    except ValueError:
        return False


PARTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n/:"), min_size=1, max_size=6
).filter(lambda part: part != ".")
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)) | st.just(
    "/$${a}${b}"
)
VOLUMES = st.builds(Volume, PATHS | st.sampled_from(["data", "a.b-c_1"]), PATHS, st.booleans())
CONTAINERS = st.builds(
    ContainerOptions,
    image=st.sampled_from(["x", "ghcr.io/a/b-c:1.2", "localhost:5000/a@sha256:" + "0" * 64, "0" * 64]),
    volumes=st.lists(VOLUMES, max_size=3).map(tuple),
    network=st.sampled_from(["none", "bridge", "host"]),
    memory_bytes=st.integers(LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES)
    | st.integers(6, 10**6).map(lambda count: count * 1024**2),
    cpus=st.none() | st.floats(CPUS_FLOOR, 10**5) | st.integers(1, 64).map(float),
    user=st.none() | st.sampled_from(["1000", "me:us", "${X}"]) | TEXTS.filter(is_user),
    read_only=st.booleans(),
    pull=st.sampled_from(["missing", "always", "never"]),
    engine=st.sampled_from(["auto", "docker", "podman", "tcp://[::1]:2375"]) | PATHS.map("unix://{}".format),
)


@st.composite
def servers(draw: st.DrawFn) -> ServerOptions:
    name = draw(NAMES)
    container = draw(st.none() | CONTAINERS)
    argv = (*(() if container else ("run",)), *draw(st.lists(TEXTS, max_size=3)))
    # What looks like a secret is not written, as other tests see.
    argv = tuple(word for at, word in enumerate(argv) if not word_looks_secret(argv, at))
    env = draw(st.dictionaries(TEXTS.filter(lambda name: bool(name) and "=" not in name), TEXTS, max_size=3))
    env = {name: value for name, value in env.items() if not looks_secret(name, value)}
    around = {name: value for name, value in draw(SURROUNDINGS).items() if name not in env}
    around = {} if container else around  # a container has its own
    shared = draw(st.integers(0, 3))
    return ServerOptions(
        name=name,
        argv=argv,
        container=container,
        env=env | around,
        env_references=draw(REFERENCES),
        cwd=None if container else Path("/"),
        spare=draw(st.integers(0, 3)),
        sessions=SessionPolicy(
            max_sessions=draw(st.integers(1, 10**6)),
            shared=shared,
            max_message_bytes=draw(st.integers(1, 10**9)),
            idle_timeout_s=draw(SPANS | st.none()),
            call_timeout_s=draw(SPANS | st.none()),
            ping_interval_s=draw(SPANS | st.none()),
            ping_timeout_s=draw(SPANS),
            retry=draw(st.booleans()),
        ),
        patience=StopPatience(draw(SPANS), draw(SPANS)),
        client_refresh=draw(st.sampled_from(["auto", "always", "never"])),
        borrowed=Borrowed(unnamed=tuple(sorted(around))),
    )


def by_name(many: list[ServerOptions]) -> dict[str, ServerOptions]:
    return {options.name: options for options in many}


FEW = st.builds(
    lambda name, spare, all, term: ServerOptions(
        name=name,
        argv=("run",),
        env={"TERM": term},
        spare=spare,
        borrowed=Borrowed(all=all, unnamed=("TERM",) if term else ()),
    ),
    NAMES,
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from(["", "xterm", "dumb"]),
)
"""Few enough that some are the same."""
WANTED = st.lists(FEW, max_size=4).map(by_name)
KNOWN = st.lists(
    st.builds(
        lambda options, origin, is_down: Known(options.name, origin, options, is_down),
        FEW,
        st.sampled_from([FILE, "", "/there/mooring.toml"]),
        st.booleans(),
    ),
    max_size=4,
).map(lambda many: {one.name: one for one in many})


def carried_out(plan: Plan, known: dict[str, Known]) -> dict[str, Known]:
    """As the daemon would."""
    after = dict(known)
    for step in plan.steps:
        if step.action is Action.REMOVE:
            del after[step.name]
        elif step.options is not None:
            after[step.name] = Known(step.name, FILE, step.options)
    return after


@given(WANTED, KNOWN, st.booleans())
def test_a_plan_that_is_carried_out_gives_what_is_wanted_and_the_next_is_empty(
    wanted: dict[str, ServerOptions], known: dict[str, Known], adopt: bool
) -> None:
    plan = plan_up(wanted, known, FILE, adopt=adopt)
    taken = {one.name for one in plan.taken}
    assert not taken or not adopt
    assert all(known[name].origin != FILE for name in taken)
    if taken:
        return  # nothing is done
    after = carried_out(plan, known)
    for name, options in wanted.items():
        there = after[name].options
        assert there is not None and same_request(there, options)
        assert not after[name].is_down or after[name].origin != FILE
    for name, one in known.items():
        if one.origin != FILE and not (adopt and name in wanted):
            assert after[name] == one, "what is not of this file is not touched"
        if one.origin == FILE and name not in wanted:
            assert name not in after
    again = plan_up(wanted, after, FILE, adopt=adopt)
    assert not again.taken and {step.action for step in again.steps} <= {Action.KEEP}


@given(st.lists(servers(), max_size=2).map(by_name), st.booleans(), SURROUNDINGS)
def test_what_is_exported_is_nothing_to_do(
    servers: dict[str, ServerOptions], json_wanted: bool, ours: dict[str, str]
) -> None:
    files = [written(options) for options in servers.values()]
    text = as_json(files) if json_wanted else as_toml(files) or "[servers]"
    asked = define(parse(text, "file", is_json=json_wanted), Path(FILE), ours)
    known = {name: Known(name, FILE, options) for name, options in servers.items()}
    plan = plan_up({name: one.options for name, one in asked.servers.items()}, known, FILE)
    assert [(step.action, step.changes) for step in plan.steps] == [(Action.KEEP, ())] * len(servers)


VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
TABLES = st.dictionaries(TEXTS, VALUES, max_size=4)


def paths(value: Any, keys: Keys = ()) -> set[Keys]:
    """Of every key and item."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return set()
    return {(*keys, key) for key, _ in inner}.union(*(paths(each, (*keys, key)) for key, each in inner))


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{inline(key)} = {inline(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", # c ]\n".join(map(inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(TABLES)
def test_every_key_of_toml_has_its_place(data: dict[str, Any]) -> None:
    lines = [
        f"{inline(key)} = {inline(value)} # x = 1"
        for key, value in data.items()
        if not isinstance(value, dict)
    ]
    for name, table in data.items():
        if isinstance(table, dict):
            lines += [
                f"[ {inline(name)} ]",
                *(f"{inline(key)}={inline(value)}" for key, value in table.items()),
            ]
    text = "\n".join(lines)
    assert tomllib.loads(text) == data
    offsets = toml_offsets(text)
    assert set(offsets) == paths(data)
    for keys, at in offsets.items():
        if isinstance(keys[-1], str):
            assert text.startswith(inline(keys[-1]), at)
        assert nearest(offsets, (*keys, "longer than any", 7)) == at


@given(st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS | st.lists(st.integers(), max_size=3))))
def test_every_key_of_json_has_its_place(data: dict[str, Any]) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False)
    assert without_comments(text) == text
    offsets, repeated = json_offsets(text)
    assert set(offsets) == paths(data) and not repeated
    for keys, at in offsets.items():
        if isinstance(keys[-1], str):
            assert text.startswith(json.dumps(keys[-1], ensure_ascii=False), at)
