"""From a server's definition to what its pods are told: words, variables, files with secrets. Pure.

What only this machine has (its folders, its keyring, its containers) is refused: no pod would find it.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mooring.cli.files.secret_looks import value_looks_secret, word_looks_secret
from mooring.cli.files.settings import address_settings, served_settings, settings_of
from mooring.cli.k8s.values import VALUE_KEY, parse_object_name
from mooring.cli.running.conflicts import as_option
from mooring.errors import UserError
from mooring.kubernetes.container_words import SECRETS_FOLDER
from mooring.kubernetes.release import Exit, SecretKey
from mooring.remote.options import RemoteOptions
from mooring.secrets.references import LITERAL, Reference, Template, literally, parse, written
from mooring.workloads.definition import ServerOptions

__all__ = ["ServerParts", "parts_of"]

LOCAL_FILES = ("ca_file", "client_cert", "client_key")
CONFIG_MAP_BYTES = 1_000_000
"""Kubernetes takes a MiB, with all that stands around it."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class ServerParts(NamedTuple):
    """Of a release."""

    settings: tuple[str, ...]
    command: tuple[str, ...]
    variables: dict[str, str]
    headers: dict[str, str]
    """Those that are plain text; they stand in the settings, too."""
    secret_files: dict[str, SecretKey]
    exits: tuple[Exit, ...]
    """To what it must be able to connect because of what it is."""


def parts_of(options: ServerOptions, places: Mapping[str, SecretKey], home: Path | None) -> ServerParts:
    """Raises UserError.

    `places`: where secrets are that are not where their names say; `home`: the folder that a server has if
    nothing is said of it.
    """
    _check_it_can_move(options, home)
    files = _SecretFiles(places)
    unnamed = frozenset(options.borrowed.unnamed)
    variables = {name: value for name, value in options.env.items() if name not in unnamed}
    _check_variables({**variables, **options.env_references})
    words = _as_words({key: value for key, value in settings_of(options).items() if key != "client_refresh"})
    if options.served is not None:
        words += _as_words(served_settings(options.served))
    for name, text in options.env_references.items():
        words += ["--env", f"{name}={files.rewritten(name, text)}"]
    if options.remote is not None:
        words += _address(options.remote, files)
    _check_text((*words, *options.argv, *variables.values()))
    return ServerParts(
        settings=tuple(words),
        command=options.argv,
        variables=variables,
        headers={} if options.remote is None else dict(options.remote.headers),
        secret_files=files.found,
        exits=() if options.remote is None else (Exit(port=_port(options.remote.url)),),
    )


class _SecretFiles:
    """Each secret is a file in the pod, which follows its Secret."""

    def __init__(self, places: Mapping[str, SecretKey]) -> None:
        self._places = places
        self.found: dict[str, SecretKey] = {}

    def rewritten(self, owner: str, text: str) -> str:
        """The value as it is written in the pod."""
        parts = [
            self._moved(owner, part) if isinstance(part, Reference) else part for part in parse(text).parts
        ]
        return written(Template(tuple(parts)))

    def _moved(self, owner: str, reference: Reference) -> Reference:
        if reference.scheme != "secret":
            raise _stays_here(
                f"the value of {owner} is at {reference.scheme}:, which a pod has not",
                f"keep it in a Secret of the cluster, and write secret:NAME in place of {reference.scheme}:…",
            )
        self.found[reference.name] = self._places.get(reference.name) or _of_the_same_name(reference.name)
        return Reference("file", f"{SECRETS_FOLDER}/{reference.name}")


def _of_the_same_name(name: str) -> SecretKey:
    try:
        return SecretKey(parse_object_name(name), VALUE_KEY)
    except ValueError as error:
        raise UserError(
            str(error),
            code="bad_secret_name",
            hint=f"say which Secret it is in: --secret {name}=SECRET[/KEY]",
        ) from None


def _check_it_can_move(options: ServerOptions, home: Path | None) -> None:
    if options.container is not None:
        raise _stays_here(
            "there is no container engine in a pod",
            "have the program in the image of the pods, and give its command; docs/kubernetes.md says how",
        )
    if options.borrowed.all:
        raise _stays_here(
            "inherit_env would put all variables of this terminal into the manifests",
            "name what the server needs: env",
        )
    if options.cwd is not None and options.cwd != home:
        raise _stays_here(
            f"{options.cwd} is a folder of this machine",
            "leave out cwd: in a pod the server begins in the folder that the image says (WORKDIR)",
        )
    if options.remote is not None:
        if urlsplit(options.remote.url).scheme not in ("http", "https"):
            raise _stays_here(
                f"{options.remote.url} is a socket of this machine", "give an address: https://…"
            )
        wrong = next((key for key in LOCAL_FILES if getattr(options.remote, key) is not None), None)
        if wrong is not None:
            raise _stays_here(f"{wrong} is a file of this machine", "put what it is for into the image")


def _check_text(words: Iterable[str]) -> None:
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise UserError(
            "there is a word that is no text, and a manifest is text",
            code="not_text",
            hint="write the command, its variables and headers in UTF-8",
        ) from None


def _check_variables(variables: Mapping[str, str]) -> None:
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise UserError(
                f"{name!r} cannot be the name of a variable in Kubernetes",
                code="bad_environment",
                hint="use letters, digits and '_', the first no digit",
            )
    if (
        sum(len(f"{name}{value}".encode(errors="replace")) for name, value in variables.items())
        > CONFIG_MAP_BYTES
    ):
        raise UserError(
            "the variables are more than a ConfigMap can hold",
            code="bad_environment",
            hint="leave out what the server does not need",
        )


def _as_words(settings: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for key, value in settings.items():
        words += [as_option(key)] if value is True else [as_option(key), str(value)]
    return words


def _address(remote: RemoteOptions, files: _SecretFiles) -> list[str]:
    # What is no secret was said when the manifests were made; `mooring run` has to be told again.
    url = f"{LITERAL}:{remote.url}" if word_looks_secret((remote.url,), 0) else remote.url
    words = ["--url", url, *_as_words(address_settings(remote))]
    for name, value in remote.headers.items():
        text = f"{LITERAL}:{value}" if value_looks_secret(name, value) else literally(value)
        words += ["--header", f"{name}: {text}"]
    for name, text in remote.header_references.items():
        words += ["--header", f"{name}: {files.rewritten(name, text)}"]
    return words


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _stays_here(message: str, hint: str) -> UserError:
    return UserError(message, code="not_in_a_pod", hint=hint)
