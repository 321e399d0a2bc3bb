"""What would stand in a manifest for all to read: refused if it looks like a secret. Pure.

Manifests are committed, reviewed and mailed. Looks deceive: `--plain NAME` says that this one is none.
"""

from collections.abc import Collection, Mapping

from mooring.cli.files.secret_looks import looks_secret, secret_name, value_looks_secret, word_looks_secret
from mooring.errors import UserError

__all__ = ["refuse_secrets_in_the_clear"]


def refuse_secrets_in_the_clear(
    name: str,
    *,
    variables: Mapping[str, str],
    headers: Mapping[str, str],
    command: tuple[str, ...],
    url: str,
    plain: Collection[str],
) -> None:
    """Raises UserError that repeats no value. `plain`: names of what is no secret."""
    meant = {one.strip("-") for one in plain}
    for variable, value in variables.items():
        if variable not in meant and looks_secret(variable, value):
            secret = secret_name(name, variable)
            raise _refused(
                f"the value of {variable} looks like a secret",
                f"keep it in a Secret, and write --env {variable}=secret:{secret}; "
                f"if it is none: --plain {variable}",
            )
    for header, value in headers.items():
        if header not in meant and value_looks_secret(header, value):
            secret = secret_name(name, header)
            raise _refused(
                f"the value of the header {header} looks like a secret",
                f"keep it in a Secret, and write '{header}: {{secret:{secret}}}'; "
                f"if it is none: --plain {header}",
            )
    if "url" not in meant and word_looks_secret((url,), 0):
        raise _refused(
            "there is something in the URL that looks like a secret",
            "give it in a header: --header 'NAME: {secret:SECRET}'; if it is none: --plain url",
        )
    for at, word in enumerate(command):
        before = command[at - 1] if at else ""
        name_of_it, _, value = word.partition("=")
        owner = (name_of_it if value else before).strip("-")
        if owner not in meant and word_looks_secret(command, at):
            raise _refused(
                f"word {at + 1} of the command looks like a secret",
                "give it to the server in a variable: --env NAME=secret:SECRET"
                + (f"; if it is none: --plain {owner}" if owner else ""),
            )


def _refused(message: str, hint: str) -> UserError:
    return UserError(f"{message}, and everybody can read a manifest", code="secret_in_manifest", hint=hint)
