"""Manifests as `mooring k8s render` makes them, without a process; and what a cluster would make of them."""

import re
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from mooring.cli.k8s.planning import plan_release
from mooring.cli.main import cli
from mooring.kubernetes.objects import objects_of
from mooring.kubernetes.release import Release

__all__ = ["Manifest", "chosen_of", "container", "expanded", "manifests", "of_kind", "pod", "release_of"]

Manifest = dict[str, Any]


def release_of(*words: str, **ours: str) -> Release:
    """`mooring k8s render WORDS`; `ours`: our environment."""
    # With its parents as in real life: a command remembers the help options of its first context.
    parent = click.Context(cli, **cli.context_settings)
    group = cli.commands["k8s"]
    assert isinstance(group, click.Group)
    context = group.commands["render"].make_context("render", list(words), parent=parent)
    return plan_release(context.params, chosen_of(context), context.obj, ours)


def chosen_of(context: click.Context) -> set[str]:
    """Which options were given."""
    return {
        name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def manifests(*words: str, **ours: str) -> list[Manifest]:
    return objects_of(release_of(*words, **ours))


def of_kind(objects: list[Manifest], kind: str) -> Manifest:
    """The first of them."""
    return next(one for one in objects if one["kind"] == kind)


def pod(objects: list[Manifest]) -> Manifest:
    spec: Manifest = of_kind(objects, "StatefulSet")["spec"]["template"]["spec"]
    return spec


def container(objects: list[Manifest]) -> Manifest:
    [only] = pod(objects)["containers"]
    assert isinstance(only, dict)
    return only


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """As the kubelet does it to each word: `$(NAME)` is a variable if there is one, `$$` is a dollar sign."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)
