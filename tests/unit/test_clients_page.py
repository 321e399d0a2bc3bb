"""docs/clients.md says what the table of clients says."""

import re

from mooring.clients.machine import CODE_EDITORS
from mooring.clients.table import load_table
from tests.clients_page import PAGE, page


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "python -m tests.clients_page --write"


def test_every_client_is_linked_to_its_section() -> None:
    text = PAGE.read_text()
    anchors = re.findall(r"^\| `[a-z0-9-]+` \| \[.+\]\(#(.+?)\)", text, re.MULTILINE)
    titles = [title.lower() for title in re.findall(r"^### (.+)$", text, re.MULTILINE)]
    # As GitHub makes anchors of titles.
    assert anchors == [
        re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in titles if title != "by hand"
    ]
    assert len(anchors) == len(load_table())


def test_the_editors_are_those_of_the_code() -> None:
    assert re.findall(r"`([^`\n]+)`", PAGE.read_text().partition("stands for")[2])[:5] == list(CODE_EDITORS)


def test_no_template_is_left_unfilled() -> None:
    assert not re.search(r"\{(home|config|code|value|name|word|\w*config|appsupport)\}", PAGE.read_text())
