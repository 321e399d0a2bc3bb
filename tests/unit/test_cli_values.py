"""Values as people write them."""

import pytest

from mooring.cli.values import (
    CPUS_FLOOR,
    ENGINES,
    LEAST_MEMORY_BYTES,
    MOST_MEMORY_BYTES,
    RESERVED_NAMES,
    parse_assignment,
    parse_count,
    parse_cpus,
    parse_duration,
    parse_engine,
    parse_header_source,
    parse_image,
    parse_limit,
    parse_memory,
    parse_name,
    parse_port,
    parse_size,
    parse_user,
    parse_variable,
    parse_volume,
)
from mooring.errors import UserError
from mooring.runtimes.containers import endpoints
from mooring.runtimes.containers.spec import (
    MEMORY_FLOOR_BYTES,
    ContainerOptions,
    ContainerSpec,
    Volume,
    check_spec,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("0", 0),
        ("0s", 0),
        ("7", 7),
        ("2.5", 2.5),
        (" 3 s ", 3),
        ("10M", 600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_limit(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "-1s", "+1", "1y", "1e3", "nan", "inf", "1.s", ".5s", "1h30m", "1,5s", "١s", "none"],
)
def test_not_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a span of time"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["none", "None", " NONE "])
def test_no_limit(text: str) -> None:
    assert parse_limit(text) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("12B", 12),
        ("10MB", 10_000_000),
        ("64MiB", 64 * 1024 * 1024),
        ("1.5KiB", 1536),
        ("1.1kB", 1100),
        ("2 gib", 2 << 30),
        ("3GB", 3_000_000_000),
        ("0.3B", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1K", "1M", "64 M iB", "1TB", "0x10", "none", "٣"])
def test_not_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "pair"),
    [("A=b", ("A", "b")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c")), ("a.b= x ", ("a.b", " x "))],
)
def test_assignments(text: str, pair: tuple[str, str]) -> None:
    assert parse_assignment(text) == pair


@pytest.mark.parametrize("text", ["", "hunter2", "=hunter2", "A=hunter2\0", "A\0=hunter2"])
def test_not_assignments_and_no_secret_in_the_message(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_assignment(text)
    assert "hunter2" not in str(caught.value)


def test_variables() -> None:
    assert parse_variable("PATH") == "PATH"
    with pytest.raises(ValueError, match="name of a variable"):
        parse_variable("PATH=x")


@pytest.mark.parametrize("text", ["a", "0", "time", "a-b", "a--b", "x" * 40])
def test_names(text: str) -> None:
    assert parse_name(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "x" * 41, "a\n", "é", ".well-known"])
def test_not_names(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be a name"):
        parse_name(text)


@pytest.mark.parametrize("text", sorted(RESERVED_NAMES))
def test_reserved_names(text: str) -> None:
    with pytest.raises(ValueError, match="choose another"):
        parse_name(text)


@pytest.mark.parametrize("text", ["0", "80", "65535", "080"])
def test_ports(text: str) -> None:
    assert parse_port(text) == int(text)


@pytest.mark.parametrize("text", ["", "abc", "-1", "+1", "65536", "1.5", "1_0", "١", " 1", "9" * 5000])
def test_not_ports(text: str) -> None:
    with pytest.raises(ValueError, match="is not a port: give a number from 0 to 65535"):
        parse_port(text)


def test_counts() -> None:
    assert parse_count("0") == 0
    assert parse_count("7", least=7) == 7
    for text in ("6", "-7", "", "seven", "7.0"):
        with pytest.raises(ValueError, match="is not a count: give a whole number from 7 on"):
            parse_count(text, least=7)


def test_sources_of_headers() -> None:
    assert parse_header_source("X-Key=KEY") == ("X-Key", "KEY")
    for text in ("X-Key", "=KEY", "X-Key=", "X-Key=sk-123", "X-Key=a b"):
        with pytest.raises(ValueError) as refused:
            parse_header_source(text)
        assert "sk-123" not in str(refused.value)


@pytest.mark.parametrize("text", ["alpine", "ghcr.io/a/b:1.2", "localhost:5000/x", "a@sha256:" + "0" * 64])
def test_images(text: str) -> None:
    assert parse_image(text) == text


@pytest.mark.parametrize("text", ["", " ", "-x", "a b", "a:", "a\n", "a\0", "https://ghcr.io/a"])
def test_not_images(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no name of an image; for example ghcr\.io/OWNER/NAME:TAG"):
        parse_image(text)


@pytest.mark.parametrize(
    ("text", "volume"),
    [
        ("/a:/b", Volume("/a", "/b")),
        ("./a b:/b:ro", Volume("./a b", "/b", True)),
        ("~:/b:rw", Volume("~", "/b")),
        ("a/b:/b", Volume("a/b", "/b")),
        ("my.data-1_:/b", Volume("my.data-1_", "/b")),
    ],
)
def test_volumes(text: str, volume: Volume) -> None:
    assert parse_volume(text) == volume


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no volume"),
        ("/a", "write it as SOURCE:/TARGET or SOURCE:/TARGET:ro"),
        ("/a:b", "is no volume"),
        (":/b", "is no volume"),
        ("/a:/b:q", "is no volume"),
        ("/a:/b:ro:ro", "is no volume"),
        ("/a:/", "would hide all of the image"),
        ("/a:///", "would hide all of the image"),
        ("a\0:/b", "no folder has a NUL character or a line break"),
        ("/a:/b\n", "no folder has a NUL character or a line break"),
        ("my data:/b", "'my data' cannot be the name of a volume; a folder is written ./FOLDER"),
        ("-v:/b", "cannot be the name of a volume"),
    ],
)
def test_not_volumes(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_volume(text)
    assert words in str(caught.value)


def checked(**limits: float) -> str:
    """What `check_spec` says of them."""
    try:
        check_spec(ContainerSpec.of(ContainerOptions(image="x", **limits), "x", (), {}))  # type: ignore[arg-type]
    except UserError as error:
        return error.code
    return "fine"


def test_memory_is_what_containers_take() -> None:
    assert LEAST_MEMORY_BYTES == MEMORY_FLOOR_BYTES
    assert parse_memory("6MiB") == LEAST_MEMORY_BYTES and parse_memory("2GiB") == 2 * 1024**3
    assert parse_memory(str(MOST_MEMORY_BYTES)) == MOST_MEMORY_BYTES
    for text in ("0", str(LEAST_MEMORY_BYTES - 1), "1000000GB"):
        with pytest.raises(ValueError, match="give 6MiB or more"):
            parse_memory(text)
    assert (parse_memory("2G"), parse_memory("512m")) == (2 * 1024**3, 512 * 1024**2), "as engines take it"
    for text in ("", "G", "2T"):
        with pytest.raises(ValueError, match="not a size"):
            parse_memory(text)


def test_processors_are_what_containers_take() -> None:
    assert (parse_cpus("2"), parse_cpus("1.5"), parse_cpus("0.01")) == (2, 1.5, CPUS_FLOOR)
    assert (checked(cpus=CPUS_FLOOR), checked(cpus=CPUS_FLOOR - 0.001)) == ("fine", "bad_limit")
    for text in (
        "",
        "0",
        "0.009",
        "-1",
        "1,5",
        ".5",
        "1.",
        "1e3",
        "nan",
        "inf",
        "two",
        "\N{SUPERSCRIPT TWO}",
        "2\n",
    ):
        with pytest.raises(ValueError, match=r"is no number of processors: give 2 or 1\.5"):
            parse_cpus(text)


def test_users() -> None:
    for text in ("me", "1000", "me:us", "0:0", "DOMAIN\\me"):
        assert parse_user(text) == text
    for text in ("", " ", ":", "me:", ":us", "a:b:c", "a b", "me\n", "me\0", "-1", "me:-1"):
        with pytest.raises(ValueError, match="is no user; write USER or USER:GROUP"):
            parse_user(text)


def test_engines() -> None:
    assert ENGINES == (endpoints.AUTO, endpoints.DOCKER, endpoints.PODMAN)
    for text in (*ENGINES, "/run/docker.sock", "./x.sock", "~/x.sock", "unix:///x", "tcp://localhost:2375"):
        assert parse_engine(text) == text
    for text in ("", " ", "dokcer", "Docker", "x.sock", "unix://", "/run/x\n", "/run/x\0"):
        with pytest.raises(ValueError, match="is no engine; write auto, docker, podman, or its socket"):
            parse_engine(text)
