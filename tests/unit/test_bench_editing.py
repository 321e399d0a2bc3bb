"""The settings that an edit is measured with are what they are said to be."""

from bench.rows.editing import SETTINGS_BYTES, edited_s, settings
from mooring.clients.table import load_table


def test_the_settings_are_of_that_size_and_full() -> None:
    data = settings()
    assert len(data) == SETTINGS_BYTES
    assert data.count(b"//") > 100
    assert data.count(b" " * 300) <= 2, "what is left over is less than one language"


def test_the_settings_are_what_zed_reads() -> None:
    value = load_table()["zed"].editor.read(settings())
    assert isinstance(value, dict)
    assert list(value) == ["theme", "context_servers", "languages"]


def test_what_is_measured_is_an_edit() -> None:
    assert edited_s(settings()) > 0
