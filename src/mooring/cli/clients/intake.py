"""From entries of clients' files to servers of Mooring's: a plan. Files are looked for, none is read.

Rules:
- The same definition in two clients is one server. What Mooring has already is not made again.
- A name becomes one that Mooring can have; one that is taken by something else gets a number. What another
  entry of the same file is called is taken.
- A value that looks like a secret becomes a reference to one. To be wrong costs nothing, so the least sign
  is enough. A secret has one value, in all of the plan: nobody is given what was another's.
- What cannot be run as it is meant is left as it is, and why is told.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

from mooring.cli.files.secret_looks import looks_secret, names_a_place, secret_name, word_looks_secret
from mooring.cli.running.plan import check_server, plan_server
from mooring.cli.running.run import run
from mooring.cli.values import RESERVED_NAMES
from mooring.clients.detecting import Site
from mooring.clients.understanding import Found
from mooring.errors import UserError
from mooring.secrets.references import literally, parse
from mooring.secrets.vault import MAX_VALUE_BYTES
from mooring.workloads.definition import ServerOptions, same_request

__all__ = [
    "Circumstances",
    "Intake",
    "Left",
    "Newcomer",
    "Origin",
    "mapped_name",
    "plan_import",
    "secrets_of",
    "should_move",
]

LONGEST_NAME, LONGEST_SECRET_NAME = 40, 64
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/=_.~-]{16,}")
"""Letters and digits without a space: it may be a key, if it is no path, address or version."""
_NO_KEY = re.compile(
    r"[~./]|[A-Za-z]:[\\/]|[a-z]+://|v?[0-9]+([.][0-9]+)+|[0-9]{4}-[0-9]{2}-[0-9]{2}|(.*/){2}"
)
_TELLTALE = re.compile(
    r"AUTH|COOKIE|CREDENTIAL|DSN|JWT|PASS|PRIVATE|SECRET|SESSION|SIGN|TOKEN|WEBHOOK"
    r"|(KEY|PW|PWD)S?(_|$)|(^|_)(PAT|PIN)(_|$)"
)
_OF_A_PATH = re.compile(r"[~./]|(.*/){2}")
_LINE = re.compile(r"^[ \t]*(?P<name>[\w.-]+):[ \t]+\S", re.MULTILINE)
"""Of a whole document in a variable."""

_VARIABLE = re.compile(
    r"\$\{(?:env:)?(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}"
    r"|\$(?P<plain>\w+)|%(?P<percent>\w+)%|\{env:(?P<curly>\w+)\}"
)
"""Ways in which clients name a variable of their environment."""
_DECIDING = re.compile(
    r"(LD|DYLD)_.*|PATH|BASH_ENV|ENV|IFS|NODE_(OPTIONS|PATH)|PYTHON(PATH|STARTUP|HOME)|PERL5(LIB|OPT)"
    r"|RUBY(LIB|OPT)|JAVA_TOOL_OPTIONS|GIT_SSH(_COMMAND)?"
)
"""Variables that make a harmless command run something else."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL, and halves of characters."""
_OTHERS = re.compile(r"\$\{[A-Za-z][^}]*\}")


class Origin(NamedTuple):
    """An entry of a client's file."""

    site: Site
    found: Found


class Left(NamedTuple):
    """An entry that is left as it is."""

    origin: Origin
    why: str
    is_ours: bool = False
    """It leads to Mooring already: nothing to tell."""


@dataclass(frozen=True, kw_only=True)
class Newcomer:
    """A server that Mooring is to have, for the clients that have it now."""

    name: str
    origins: tuple[Origin, ...]
    options: ServerOptions
    moved: Mapping[str, str]
    """By variable: the name of the secret that its value becomes."""
    secrets: Mapping[str, str] = field(repr=False)
    """By name: the values of those that are not kept yet."""
    is_new: bool
    """Mooring has it not."""
    has_open_secret: bool
    """A word of its command line looks like one, and stays there."""

    @property
    def variables(self) -> list[str]:
        """Names of those that the entry sets."""
        return sorted(self.origins[0].found.env)

    @property
    def folder(self) -> str:
        """Where it runs; as it stands in the file, if something is looked up for it."""
        found = self.origins[0].found
        is_looked_up = any(one in (found.cwd or "") for one in found.refers)
        return found.cwd or "" if is_looked_up else str(self.options.cwd)

    @property
    def warnings(self) -> list[str]:
        """What one should look at before one agrees."""
        deciding = [name for name in self.variables if _DECIDING.fullmatch(name.upper())]
        told = [f"{name} decides what code is run: see its value in the file" for name in deciding]
        if self.has_open_secret:
            told.append("a word of this command looks like a secret, and others on this machine can read it")
        return told

    @property
    def words(self) -> tuple[str, ...]:
        """Its command as it stands in the file: what is to be put in may be a secret, and is not shown."""
        return tuple(_VARIABLE.sub(_without_default, word) for word in self.origins[0].found.argv)


class Intake(NamedTuple):
    """The plan."""

    newcomers: list[Newcomer]
    left: list[Left]


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What the plan depends on, beside the entries."""

    known: Mapping[str, ServerOptions | None]
    """Servers that Mooring has. None: its definition cannot be read."""
    urls: frozenset[str]
    """Where these are reached."""
    look_up_secret: Callable[[str], str | None] = field(repr=False)
    """The value that is kept under a name."""
    environ: Mapping[str, str] = field(repr=False)
    home: Path


def plan_import(origins: Sequence[Origin], given: Circumstances, neighbours: Iterable[Origin] = ()) -> Intake:
    """What is to be done with these entries; `neighbours`: others of the same files, which stay."""
    left: list[Left] = []
    groups: list[tuple[_Definition, list[Origin]]] = []
    for origin in origins:
        told = _unfit(origin, given) or _read(origin, given)
        if isinstance(told, Left):
            left.append(told)
        else:
            _join(groups, told, origin)
    newcomers: list[Newcomer] = []
    taken: set[str] = set()
    secrets: dict[str, str] = {}
    entries: dict[Site, set[str]] = {}
    for site, found in (*origins, *neighbours):
        if not _is_ours(found, given.urls):
            entries.setdefault(site, set()).add(found.name)
    for definition, members in groups:
        try:
            newcomer = _named(definition, members, _Taken(given, taken, secrets, entries))
            check_server(newcomer.options)
        except UserError as error:
            left += [Left(origin, _sentence(error, origin, given)) for origin in members]
        else:
            taken.add(newcomer.name)
            secrets |= newcomer.secrets
            newcomers.append(newcomer)
    return Intake(newcomers, left)


def _sentence(error: UserError, origin: Origin, given: Circumstances) -> str:
    """Without the name that was to be given to it, and without what was looked up for it."""
    message = re.sub(r"^[a-z0-9-]+: ", "", error.message)
    said = f"{message} ({error.hint})" if error.hint else message
    found = origin.found
    references = {one: _value(one, given) for one in found.refers}
    if not any(one in text for one in references for text in (found.argv[0], found.cwd or "")):
        return said
    for reference, value in references.items():
        said = said.replace(value, reference) if value else said
    return said


def _join(
    groups: list[tuple["_Definition", list[Origin]]], definition: "_Definition", origin: Origin
) -> None:
    """To those that are the same; but two entries in one file stay two."""
    for other, members in groups:
        if other == definition and all(member.site != origin.site for member in members):
            members.append(origin)
            return
    groups.append((definition, [origin]))


def _unfit(origin: Origin, given: Circumstances) -> Left | None:
    found = origin.found
    if _is_ours(found, given.urls):
        return Left(origin, "it leads to Mooring already", is_ours=True)
    if found.trouble:
        return Left(origin, found.trouble)
    if found.is_disabled:
        return Left(origin, "it is switched off there")
    if found.url is not None:
        how = "mooring run NAME --url URL puts Mooring in front of it"
        return Left(origin, f"it is reached at {_host(found.url)}, and not started here; {how}")
    if not found.argv:
        return Left(origin, "it names no command")
    return None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "another address"
    except ValueError:
        return "another address"


def _is_ours(found: Found, urls: frozenset[str]) -> bool:
    if found.url is not None:
        return found.url in urls
    words = [PurePath(found.argv[0]).name if found.argv else "", *found.argv[1:]]
    return words[:2] == ["mooring", "stdio"] or words[1:4] == ["-m", "mooring", "stdio"]


class _Definition(NamedTuple):
    """What is run; equal ones are one server."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    """Where the entry does not say: the folder of the project, or the home directory."""

    def __repr__(self) -> str:
        return f"<definition of {self.argv[0]}>"


def _read(origin: Origin, given: Circumstances) -> "_Definition | Left":
    """With everything in it that the client would look up in its environment: in ours."""
    found, folder = origin.found, origin.site.project or given.home
    values: dict[str, str] = {}
    whose = origin.site.client.name
    for reference in found.refers:
        if (match := _VARIABLE.fullmatch(reference)) is None:
            return Left(origin, f"it refers to {reference}, which only {whose} knows")
        value = _value(reference, given)
        if value is None:
            return Left(origin, f"it refers to the variable {_variable(match)}, which is not set here")
        values[reference] = value
    texts = (*found.argv, *found.env.values(), found.cwd or "")
    if others := [name for text in texts for name in _OTHERS.findall(text) if name not in values]:
        return Left(origin, f"it refers to {others[0]}, which only {whose} knows")
    try:
        cwd = folder / Path(_filled(found.cwd or "", values)).expanduser()
    except RuntimeError:
        return Left(origin, f"nobody knows whose home is meant by its folder {found.cwd}")
    env = tuple(sorted((name, _filled(text, values)) for name, text in found.env.items()))
    made = _Definition(tuple(_filled(word, values) for word in found.argv), env, str(cwd))
    return Left(origin, odd) if (odd := _odd(found.name, made)) else made


def _odd(name: str, definition: "_Definition") -> str:
    """What no program can be given, if there is something."""
    variables = [variable for variable, _ in definition.env]
    texts = (name, *definition.argv, definition.cwd, *(text for pair in definition.env for text in pair))
    if any(_NO_TEXT.search(text) for text in texts):
        return "it has characters in it that cannot be written"
    if any(not variable or "=" in variable for variable in variables):
        return "it has a variable with a name that none can have"
    if any(len(value.encode()) > MAX_VALUE_BYTES for _, value in definition.env):
        return "it has a variable that is too large"
    return ""


def _without_default(match: re.Match[str]) -> str:
    default = match["default"] or ""
    return match[0].replace(f":-{default}", ":-…") if should_move(_variable(match), default) else match[0]


def _value(reference: str, given: Circumstances) -> str | None:
    """What is to be put for it."""
    if (match := _VARIABLE.fullmatch(reference)) is None:
        return None
    value: str | None = given.environ.get(_variable(match)) or match["default"]
    return value


def _variable(match: re.Match[str]) -> str:
    return next(name for name in match.group("braced", "plain", "percent", "curly") if name is not None)


def _filled(text: str, values: Mapping[str, str]) -> str:
    if not values:
        return text
    pattern = "|".join(re.escape(reference) for reference in sorted(values, key=len, reverse=True))
    return re.sub(pattern, lambda found: values[found[0]], text)


class _Taken(NamedTuple):
    """What is not free any more."""

    given: Circumstances
    names: set[str]
    secrets: dict[str, str]
    """Of this plan: their values, by name."""
    entries: Mapping[Site, set[str]]
    """Names in files, but those of entries that lead to Mooring already."""

    def __repr__(self) -> str:
        return f"<{len(self.names)} names, {len(self.secrets)} secrets>"

    def is_of_another(self, name: str, origins: Iterable[Origin]) -> bool:
        """Is an entry called so, beside one of these?"""
        return any(name in self.entries[site] and name != found.name for site, found in origins)

    def awaited(self, name: str) -> set[str]:
        """Secrets that servers other than this one name, and would be given."""
        others = (options for other, options in self.given.known.items() if options and other != name)
        return {secret for options in others for secret in secrets_of(options)}


def secrets_of(options: ServerOptions) -> set[str]:
    """Names of the secrets that a server is given."""
    references = (one for text in options.env_references.values() for one in parse(text).references)
    return {one.name for one in references if one.scheme == "secret"}


def _named(definition: _Definition, origins: list[Origin], taken: _Taken) -> Newcomer:
    """With the first name that is free, or that of what Mooring has already if that is the same."""
    base, known = mapped_name(origins[0].found.name), taken.given.known
    number = 1
    while True:
        name = _numbered(base, number, LONGEST_NAME)
        number += 1
        if name in taken.names or name in RESERVED_NAMES or taken.is_of_another(name, origins):
            continue
        made = _made(name, definition, origins, taken)
        if name not in known:
            return made
        there = known[name]
        if there is not None and same_request(there, made.options):
            return Newcomer(**{**vars(made), "is_new": False})


def _made(name: str, definition: _Definition, origins: list[Origin], taken: _Taken) -> Newcomer:
    given = taken.given
    moved: dict[str, str] = {}
    secrets: dict[str, str] = {}
    env: dict[str, str] = {}
    for variable, value in definition.env:
        if not should_move(variable, value):
            env[variable] = literally(value)
            continue
        planned = {**taken.secrets, **secrets}
        secret = _secret_for(name, variable, value, planned, taken)
        moved[variable] = secret
        env[variable] = f"secret:{secret}"
        if given.look_up_secret(secret) is None:
            secrets[secret] = value
    # As of a command line without any options: it has the defaults.
    context = run.make_context(run.name, [name, "--", "command"], help_option_names=[])
    asked = {**context.params, "cwd": definition.cwd, "env": list(env.items())}
    return Newcomer(
        name=name,
        origins=tuple(origins),
        options=plan_server(asked, {"cwd", "env"}, definition.argv, given.environ),
        moved=moved,
        secrets=secrets,
        is_new=True,
        has_open_secret=_has_open_secret(definition.argv, origins, given),
    )


def _has_open_secret(words: Sequence[str], origins: list[Origin], given: Circumstances) -> bool:
    """By the words themselves, or by the names of variables that stand for them."""
    if any(word_looks_secret(words, at) for at in range(len(words))):
        return True
    references = ((one, _VARIABLE.fullmatch(one)) for origin in origins for one in origin.found.refers)
    return any(
        match is not None and should_move(_variable(match), _value(reference, given) or "")
        for reference, match in references
        if any(reference in word for origin in origins for word in origin.found.argv)
    )


def should_move(variable: str, value: str) -> bool:
    """Is it a secret, as far as one can guess?"""
    if not value.strip():
        return False
    if looks_secret(variable, literally(value)):
        return True
    if value.lower() in ("true", "false", "0", "1", "none", "null"):
        return False
    name = variable.upper()
    if _TELLTALE.search(name) and _OF_A_PATH.match(value) and "://" not in value:
        # Passwords begin with anything. A file that is there is what such a variable may name.
        return not (names_a_place(name) or _exists(value))
    if any(_TELLTALE.search(line["name"].upper()) for line in _LINE.finditer(value)):
        return True
    is_random = _RANDOM.fullmatch(value) is not None and _NO_KEY.match(value) is None
    return is_random or (_TELLTALE.search(name) is not None and not _NO_KEY.match(value))


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _secret_for(server: str, variable: str, value: str, planned: Mapping[str, str], taken: _Taken) -> str:
    """A name for it: one under which nothing is kept, or is to be, but this value."""
    base, number, awaited = secret_name(server, variable), 1, taken.awaited(server)
    while True:
        name = _numbered(base, number, LONGEST_SECRET_NAME)
        there = taken.given.look_up_secret(name)
        there = planned.get(name) if there is None else there
        if there == value or (there is None and name not in awaited):
            return name
        number += 1


def mapped_name(text: str) -> str:
    """A name that Mooring can have, as much like this one as can be."""
    name = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST_NAME].strip("-")
    return name or "server"


def _numbered(base: str, number: int, longest: int) -> str:
    end = "" if number == 1 else f"-{number}"
    return base[: longest - len(end)].rstrip("-") + end
