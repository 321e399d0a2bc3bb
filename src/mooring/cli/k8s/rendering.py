"""What `mooring k8s render` does: plan, print or write, and say what has to be there before."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click

from mooring.cli.files.finding import tell_remarks
from mooring.cli.files.reading import BadFile
from mooring.cli.k8s.planning import plan_release
from mooring.cli.running.conflicts import conflict
from mooring.cli.terminal.words import tell
from mooring.errors import UserError
from mooring.kubernetes.objects import needed_secrets, objects_of
from mooring.kubernetes.release import Release
from mooring.kubernetes.writing import as_files, as_list, as_yaml

__all__ = ["render_server"]

FOR_ALL_TO_READ = 0o644
"""There is no secret in them."""


def render_server(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...], ours: Mapping[str, str]
) -> int:
    """The exit status. Raises UserError."""
    if given["out"] and given["as_json"]:
        raise conflict("--out writes YAML", "leave out --json")
    try:
        release = plan_release(given, chosen, command, ours)
    except BadFile as error:
        tell_remarks("error", error.shown, error.problems)
        return 2
    objects = objects_of(release)
    if given["out"]:
        _write(Path(given["out"]), as_files(objects))
    else:
        click.echo(as_list(objects) if given["as_json"] else as_yaml(objects), nl=False)
    _tell_what_is_needed(release)
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Each file is there whole, or as it was."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            new = folder / f".{name}.new"
            new.write_text(text, encoding="utf-8")
            new.chmod(FOR_ALL_TO_READ)
            new.replace(folder / name)
            click.echo(folder / name)
    except OSError as error:
        raise UserError(
            f"{error.filename} cannot be written: {error.strerror}",
            code="cannot_write",
            hint="name a folder that you may write: --out DIR",
        ) from None


def _tell_what_is_needed(release: Release) -> None:
    if secrets := needed_secrets(release):
        shown = ", ".join(f"{secret} (key {key})" for secret, key in secrets)
        tell("note", f"these Secrets have to be in the namespace: {shown}")
        secret, key = secrets[0]
        tell("hint", f"one is made with: kubectl create secret generic {secret} --from-file={key}=FILE")
    if release.sessions is None:
        tell("note", "sessions are in the memory of the one replica, and end with it; --redis-url keeps them")
