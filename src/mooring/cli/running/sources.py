"""`--from`: where a server comes from, as people write it, and the command that this means.

    npx:PACKAGE[@VERSION]   a package of npm:  npx -y PACKAGE[@VERSION]
    uvx:PACKAGE[@VERSION]   a package of PyPI: uvx PACKAGE[@VERSION]
    python:MODULE           a module of the Python on your PATH: python3 -m MODULE

Pure, and strict: what is given becomes one word of a command line, and must not be taken for an option.
"""

import re

__all__ = ["parse_source"]

# As the registries have them; capitals are those of packages older than the rule against them.
_NPM = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*")
_PYPI = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_VERSION = re.compile(r"[\^~]?[A-Za-z0-9][A-Za-z0-9._+!-]*")
_PACKAGES = {
    "npx": (("npx", "-y"), _NPM, "@modelcontextprotocol/server-memory"),
    "uvx": (("uvx",), _PYPI, "mcp-server-time"),
}
FORMS = "npx:PACKAGE[@VERSION], uvx:PACKAGE[@VERSION] or python:MODULE"


def parse_source(text: str) -> tuple[str, ...]:
    """The beginning of the command line. Raises ValueError with a sentence for people."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in (*_PACKAGES, "python"):
        raise ValueError(f"{text!r} is not a source; write {FORMS}, or give the command itself after --")
    if kind == "python":
        if not _MODULE.fullmatch(rest):
            raise ValueError(f"{rest!r} is not the name of a module; write python:package.module")
        return ("python3", "-m", rest)
    command, pattern, example = _PACKAGES[kind]
    # The first character may be the @ of a scope.
    name, at, version = (rest[:1] + rest[1:].partition("@")[0], *rest[1:].partition("@")[1:])
    if not pattern.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a package; write {kind}:{example}")
    if at and not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not a version; write {kind}:{name}@1.2.3, or leave it out")
    return (*command, rest)
