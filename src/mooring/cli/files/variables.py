"""`${NAME}` and `${NAME:-default}` in texts of a file: variables of whoever reads it.

`${env:NAME}`, as editors write it, is the same. `$${` is a `${` that means itself.
"""

import re
from collections.abc import Mapping

__all__ = ["escaped", "expand", "has_variables"]

_VARIABLE = re.compile(
    r"\$(?:(?P<itself>\$)(?=\{)"
    r"|\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|(?P<other>\{[^}]*\}?))"
)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with the values of its variables. Raises ValueError with a sentence for people."""
    return _VARIABLE.sub(lambda found: _value(found, environ), text)


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found["itself"]:
        return "$"
    if found["other"]:
        raise ValueError(
            f"{found[0]} is not a variable; "
            "write ${NAME} or ${NAME:-default}, and $${ for the text itself"
        )
    name, default = found["name"], found["default"]
    # As in a shell: a default also takes the place of a value that is empty.
    if default is not None:
        return environ.get(name) or default
    if name not in environ:
        raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
    return environ[name]


def has_variables(text: str) -> bool:
    """Does its value depend on who reads it?"""
    return any(found["name"] for found in _VARIABLE.finditer(text))


def escaped(text: str) -> str:
    """A text that `expand` makes this one of."""
    return text.replace("${", "$${")
