"""What `mooring k8s render` does: plan, print or write, and say what has to be there before."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mooring.cli.files.finding import tell_remarks
from mooring.cli.files.reading import BadFile
from mooring.cli.k8s.folder import write_files
from mooring.cli.k8s.planning import plan_release
from mooring.cli.running.conflicts import conflict
from mooring.cli.terminal.words import tell
from mooring.kubernetes.objects import needed_secrets, objects_of
from mooring.kubernetes.release import Release, SecretKey, is_fixed
from mooring.kubernetes.writing import as_files, as_list, as_yaml

__all__ = ["render_server"]


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
        write_files(Path(given["out"]), as_files(objects), release.name)
    else:
        click.echo(as_list(objects) if given["as_json"] else as_yaml(objects), nl=False)
    _tell_what_is_needed(release)
    return 0


def _tell_what_is_needed(release: Release) -> None:
    if secrets := needed_secrets(release):
        shown = ", ".join(f"{secret} (key {key})" for secret, key in secrets)
        tell("note", f"these Secrets have to be in the namespace: {shown}")
        for line in _making(secrets, release.namespace):
            tell("hint", line)
    if not is_fixed(release.image):
        tell("note", f"{release.image} may be another image tomorrow: give it a tag of its own, or a digest")
    if release.sessions is None:
        tell("note", "sessions are in the memory of the one replica, and end with it; --redis-url keeps them")


def _making(secrets: Sequence[SecretKey], namespace: str | None) -> Iterator[str]:
    """How each is made, with all of its keys."""
    keys: dict[str, list[str]] = {}
    for secret, key in secrets:
        keys.setdefault(secret, []).append(key)
    where = f" -n {namespace}" if namespace else ""
    for secret, wanted in keys.items():
        files = " ".join(f"--from-file={key}=FILE" for key in wanted)
        yield f"kubectl create secret generic {secret}{where} {files}"
