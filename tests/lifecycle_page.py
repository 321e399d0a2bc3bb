"""`docs/lifecycle.md`: prose, and between two marks the tables made from `supervise.states`.

python -m tests.lifecycle_page --write
"""

import argparse
from pathlib import Path

from mooring.supervise import lifecycle_markdown

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs/lifecycle.md"
BEGIN = "<!-- made by python -m tests.lifecycle_page --write -->\n"
END = "<!-- until here -->\n"


def page(text: str) -> str:
    """The page with the tables as the code has them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the marks are gone"
    return f"{before}{BEGIN}\n{lifecycle_markdown()}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lifecycle_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring docs/lifecycle.md up to date")
    options = parser.parse_args()
    current = page(PAGE.read_text())
    if options.write:
        PAGE.write_text(current)
    else:
        print(current, end="")


if __name__ == "__main__":
    main()
