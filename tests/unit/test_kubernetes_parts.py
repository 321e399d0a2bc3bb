"""Amounts, the file of variables, and text that every reader of YAML reads the same."""

import json
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.kubernetes.quantities import Amount, parse_amount, parse_memory, parse_quantity
from mooring.kubernetes.reading import is_kustomization, server_of
from mooring.kubernetes.release import is_fixed
from mooring.kubernetes.variables_file import variables_text
from mooring.kubernetes.writing import as_files, as_list, as_yaml
from mooring.runtimes.environment import parse_env_file

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,9}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("250m", Fraction(1, 4)),
        ("1.5", Fraction(3, 2)),
        ("2", 2),
        ("512Mi", 512 * 2**20),
        ("1G", 10**9),
        ("1.5Gi", 3 * 2**29),
    ],
)
def test_amounts(text: str, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1mi", "1 Gi", "0", "0Mi", "1e3", "1Gi:", ":1Gi", "2Gi:1Gi", "1:900m"]
)
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(ValueError, match=r"amount|nothing|limit"):
        parse_amount(text)


def test_amounts_with_a_limit() -> None:
    assert parse_amount("100m:1") == Amount("100m", "1")
    assert parse_amount("1024Mi:1Gi") == Amount("1024Mi", "1Gi")


@pytest.mark.parametrize(
    ("text", "meant"), [("256", "256Mi"), ("256m", "256Mi"), ("512k:1Gi", "512Mi"), ("15.9Mi", "256Mi")]
)
def test_memory_without_its_unit(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"too little memory for any pod; write {meant}"):
        parse_memory(text)
    assert parse_memory("16Mi") == Amount("16Mi")


@pytest.mark.parametrize(
    ("image", "fixed"),
    [
        ("mooring", False),
        ("localhost:5000/mooring", False),
        ("a/mooring:latest", False),
        ("localhost:5000/mooring:1", True),
        ("a/mooring:latest@sha256:0123", True),
    ],
)
def test_images_that_stay_the_same(image: str, fixed: bool) -> None:
    assert is_fixed(image) is fixed


@pytest.mark.parametrize(
    "text", ["", "a: [", "- 1", "metadata: 3", "metadata: {labels: 3}", "x: 2024-99-99", "kind: Service"]
)
def test_what_is_nobodys_manifest(text: str) -> None:
    assert server_of(text) is None and not is_kustomization(text)


@given(st.dictionaries(NAMES.filter(lambda name: name != "export"), TEXT, max_size=5))
def test_variables_are_read_as_they_were(variables: dict[str, str]) -> None:
    assert parse_env_file(variables_text(variables), "file") == variables


@given(TEXT, TEXT)
def test_text_stays_text(key: str, value: str) -> None:
    one = {"kind": "A", "a": value, "b": [value, {key: value}]}
    assert yaml.safe_load(as_yaml([one])) == one


def test_what_some_readers_take_for_something_else_is_quoted() -> None:
    odd = [
        "y",
        "N",
        "yes",
        "Off",
        "true",
        "NULL",
        "~",
        "1e3",
        "0o17",
        "1_000",
        "12:30",
        "0x1f",
        ".5",
        "-",
        "2024-01-01",
    ]
    odd += [
        "",
        " a",
        "a ",
        "a: b",
        "a #b",
        "{a}",
        "[a]",
        "*a",
        "&a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "=",
        "<<",
        "a\tb",
    ]
    lines = as_yaml([{"kind": "A", "a": odd}]).splitlines()[2:]
    assert len(lines) == len(odd)
    for line, text in zip(lines, odd, strict=True):
        assert line == f"  - {json.dumps(text)}"


def test_documents_a_list_and_files() -> None:
    objects: list[dict[str, Any]] = [
        {"kind": "Service", "spec": {"clusterIP": "None"}},
        {"kind": "Service", "spec": {"type": "ClusterIP"}},
        {"kind": "ServiceAccount"},
    ]
    assert list(yaml.safe_load_all(as_yaml(objects))) == objects
    assert json.loads(as_list(objects)) == {"apiVersion": "v1", "kind": "List", "items": objects}
    files = as_files(objects)
    *names, last = files
    assert (names, last) == (
        ["service-replicas.yaml", "service.yaml", "serviceaccount.yaml"],
        "kustomization.yaml",
    )
    assert [yaml.safe_load(files[name]) for name in names] == objects
    assert yaml.safe_load(files[last])["resources"] == names


def test_no_anchors() -> None:
    shared = {"a": "b"}
    assert "&" not in as_yaml([{"kind": "A", "one": shared, "other": shared}])
