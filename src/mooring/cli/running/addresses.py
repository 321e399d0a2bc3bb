"""`--url`: from what was given to the server elsewhere that is to be spoken to.

Nothing of this machine goes there but what its requests carry: what would be given to a program is refused. A
value that looks like a secret is not taken from a command line, which everybody on the machine can read.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mooring.cli.files.secret_looks import secret_name, value_looks_secret, word_looks_secret
from mooring.cli.running.conflicts import as_options, conflict
from mooring.cli.running.images import path_at
from mooring.errors import UserError
from mooring.remote.options import RemoteOptions
from mooring.secrets.references import LITERAL, sort_out

__all__ = ["NOT_ELSEWHERE", "ONLY_ELSEWHERE", "check_remote", "plan_remote", "refuse_secrets"]

ONLY_ELSEWHERE = frozenset({"header", "ca_file", "client_cert", "client_key"})
"""Options that mean nothing to a program that we start."""
NOT_ELSEWHERE = frozenset({"env", "env_file", "pass_env", "inherit_env", "cwd", "eof_grace", "stop_grace"})
"""And those that mean nothing to one that we do not start."""
_MEANT = f"{LITERAL}:"
"""What comes after it is no secret, whatever it looks like."""


def plan_remote(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...]
) -> RemoteOptions | None:
    """None: it is to be started here. Raises UserError; for the parameters see `plan.plan_foreground`."""
    if given["url"] is None:
        if wrong := sorted(ONLY_ELSEWHERE & set(chosen)):
            raise UserError(
                f"{as_options(wrong)}: works only with --url", code="url_only", hint="add --url URL"
            )
        return None
    _check_alone(given, chosen, command)
    texts, references = sort_out(dict(given["header"]), Path())
    here = Path.cwd()

    def file(name: str) -> Path | None:
        return Path(path_at(here, given[name])) if given[name] else None

    return RemoteOptions(
        url=given["url"].removeprefix(_MEANT),
        headers=texts,
        header_references=references,
        transport=given["transport"],
        ca_file=file("ca_file"),
        client_cert=file("client_cert"),
        client_key=file("client_key"),
    )


def check_remote(options: RemoteOptions) -> None:
    """Can its address, and the files that go with it, be used? Raises UserError."""
    # Whoever names no server elsewhere needs nothing of what speaks to one.
    from mooring.http.client_proxies import NO_PROXIES  # noqa: PLC0415
    from mooring.workloads.remote_maker import origin_of  # noqa: PLC0415

    origin_of(options, NO_PROXIES)


def refuse_secrets(name: str, headers: Mapping[str, str], url: str | None) -> None:
    """Of a command line. Raises UserError that repeats no value."""
    for header, value in headers.items():
        if value_looks_secret(header, value) and not value.startswith(_MEANT):
            secret = secret_name(name, header)
            kind = f"{value.split()[0]} " if header.lower() == "authorization" and " " in value else ""
            raise _refused(
                f"--header {header}: its value looks",
                f"mooring secret set {secret}, and then: --header '{header}: {kind}{{secret:{secret}}}'; "
                f"if it is none: --header '{header}: {_MEANT}VALUE'",
            )
    if url is not None and not url.startswith(_MEANT) and word_looks_secret((url,), 0):
        raise _refused(
            "--url: something in it looks",
            "give it in a header: --header 'NAME: {secret:SECRET}'; "
            f"if it is none, or the server takes it only there: --url {_MEANT}URL",
        )


def _refused(what: str, hint: str) -> UserError:
    return UserError(
        f"{what} like a secret, and everybody can read command lines", code="secret_in_argv", hint=hint
    )


def _check_alone(given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...]) -> None:
    for other in ("image", "source"):
        if given[other]:
            name = "--from" if other == "source" else f"--{other}"
            raise conflict(f"--url takes the place of {name}", "give one or the other")
    if command:
        raise conflict("--url takes the place of a command", "give one or the other")
    if bool(given["client_cert"]) != bool(given["client_key"]):
        raise conflict("--client-cert and --client-key belong together", "give both or none")
    if wrong := sorted(NOT_ELSEWHERE & set(chosen)):
        hint = "leave it out; --header says what its requests carry"
        raise conflict(f"{as_options(wrong)}: means nothing to a server elsewhere", hint)
