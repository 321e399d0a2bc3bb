"""docs/configuration.md and docs/mooring.schema.json are what the types say; and its examples are files."""

import re
import tomllib
from pathlib import Path

import msgspec

from mooring.cli.files.difference import Action
from mooring.cli.files.picture import SIGNS
from mooring.cli.files.reading import entries_of, parse
from mooring.cli.files.schema import FIELDS, RUN_OPTIONS, json_schema
from mooring.cli.running.run import BACKGROUND_ONLY, FOREGROUND_ONLY
from tests.configuration_page import PAGE, SCHEMA, page
from tests.json_schema import problems

OF_THE_COMMAND = {"foreground", "source", "log_level", "log_format"}
"""Options of `mooring run` that are not about the server."""
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_and_the_schema_are_what_the_types_say() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "python -m tests.configuration_page --write"
    assert SCHEMA.read_bytes() == json_schema(), "python -m tests.configuration_page --write"


def test_a_file_can_say_what_run_can() -> None:
    wanted = set(RUN_OPTIONS) - FOREGROUND_ONLY - BACKGROUND_ONLY - OF_THE_COMMAND
    assert wanted - {"header"} | {"command", "from", "args", "headers"} == set(FIELDS)


def test_examples_are_as_the_schema_says() -> None:
    schema = msgspec.json.decode(SCHEMA.read_bytes())
    example, comment = EXAMPLES
    document = parse(example, "mooring.toml", is_json=False)
    assert len(entries_of(document)[0]) == 3
    assert problems(document.data, schema, schema) == []
    assert tomllib.loads(comment) == {}
    for wrong in (
        {},
        *({"servers": {"a": said}} for said in ({"x": 1}, {"args": "x"}, {"client_refresh": "x"})),
        *({"servers": {"a": {"image": "x", **said}}} for said in ({"network": "x"}, {"volume": [1]})),
    ):
        assert problems(wrong, schema, schema)


def test_every_sign_is_explained() -> None:
    signs = {sign for sign, _ in SIGNS.values()} | {"!"}
    assert set(re.findall(r"^\| `(.)` \|", PAGE.read_text(), re.MULTILINE)) == signs
    assert set(SIGNS) == set(Action)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (Path(PAGE.parent) / target).exists(), target
