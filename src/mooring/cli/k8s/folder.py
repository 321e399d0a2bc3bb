"""Manifests in a folder: one server's, and no other's."""

from collections.abc import Mapping
from pathlib import Path

import click

from mooring.errors import UserError
from mooring.kubernetes.reading import is_kustomization, server_of

__all__ = ["write_files"]

FOR_ALL_TO_READ = 0o644
"""There is no secret in them."""


def write_files(folder: Path, files: Mapping[str, str], server: str) -> None:
    """Each file is there whole, or as it was. Raises UserError, also if others' would be overwritten."""
    try:
        for name in files:
            _refuse_others(folder / name, server)
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


def _refuse_others(path: Path, server: str) -> None:
    """The files of all servers have the same names."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    whose = server_of(text)
    if whose == server or is_kustomization(text):
        return
    raise UserError(
        f"{path} is of the server {whose}" if whose else f"{path} was not written by mooring k8s render",
        code="folder_of_another",
        hint=f"name a folder of its own: --out {path.parent.with_name(server)}",
    )
