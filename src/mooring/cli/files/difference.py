"""From what a file asks for and what there is to what is to be done. Pure.

Rules:
- What is the same is left alone, whatever the terminal from which it is asked for.
- What was made from this file and is no longer named in it goes away.
- What was not made from this file is not touched: a name that is taken by something else is refused, unless
  the file is to adopt it. If it is the same, there is nothing to refuse.
- Carried out, a plan makes the next one empty.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from mooring.cli.files.secret_looks import masked, shown_command
from mooring.cli.files.settings import OF_ADDRESSES, OF_CONTAINERS, OF_SERVED, SETTINGS
from mooring.errors import UserError
from mooring.workloads.definition import ServerOptions, asked_env, asked_headers, same_request

__all__ = ["Action", "Known", "Plan", "Step", "plan_down", "plan_up"]


ADOPTED = "of this file from now on"


class Action(StrEnum):
    """What becomes of a server."""

    ADD = "add"
    CHANGE = "change"
    START = "start"
    """It is the same, but does not run."""
    ADOPT = "adopt"
    """It is the same, and this file's from now on."""
    REMOVE = "remove"
    KEEP = "keep"


class Known(NamedTuple):
    """A server that there is."""

    name: str
    origin: str
    options: ServerOptions | None
    """None: the daemon cannot read its own definition."""
    is_down: bool = False
    """It was stopped, or has failed."""


class Step(NamedTuple):
    """What is to be done with one server."""

    action: Action
    name: str
    changes: tuple[str, ...] = ()
    """For people; never with the value of a variable."""
    options: ServerOptions | None = None
    """What it is to be, if anything is to be done for that."""
    trouble: UserError | None = None
    """Why that cannot be: it is left as it is."""
    is_ours: bool = True


class Plan(NamedTuple):
    """Steps by name, and what is in the way of all of them."""

    steps: list[Step]
    taken: list[Known]


def plan_up(
    wanted: Mapping[str, ServerOptions],
    known: Mapping[str, Known],
    origin: str,
    *,
    adopt: bool = False,
    troubles: Mapping[str, UserError] | None = None,
) -> Plan:
    """`troubles`: which of those that are wanted cannot be started, and why."""
    steps = plan_down(known, origin, kept=wanted).steps
    taken = []
    for name, options in wanted.items():
        step = _step(options, known.get(name), origin, adopt=adopt)
        if step is None:
            taken.append(known[name])
        else:
            steps.append(step._replace(trouble=(troubles or {}).get(name) if step.options else None))
    return Plan(sorted(steps, key=lambda step: step.name), taken)


def plan_down(known: Mapping[str, Known], origin: str, kept: Mapping[str, object] | None = None) -> Plan:
    """All that was made from this file goes away, but for those that are kept."""
    gone = [one for one in known.values() if one.origin == origin and one.name not in (kept or {})]
    return Plan([Step(Action.REMOVE, one.name) for one in sorted(gone)], [])


def _step(options: ServerOptions, known: Known | None, origin: str, *, adopt: bool) -> Step | None:
    """None: the name is taken."""
    name = options.name
    if known is None:
        return Step(Action.ADD, name, (shown_command(options.what),), options)
    is_same = known.options is not None and same_request(known.options, options)
    is_ours = known.origin == origin
    if not is_ours and not adopt:
        return Step(Action.KEEP, name, is_ours=False) if is_same else None
    if not is_same:
        adoption = () if is_ours else (ADOPTED,)
        return Step(Action.CHANGE, name, (*_changes(known.options, options), *adoption), options)
    if known.is_down:
        return Step(Action.START, name, () if is_ours else (ADOPTED,), options)
    return Step(Action.KEEP, name) if is_ours else Step(Action.ADOPT, name, (ADOPTED,), known.options)


def _changes(old: ServerOptions | None, new: ServerOptions) -> list[str]:
    if old is None:
        return ["what it was cannot be read"]
    pairs = [
        *_programs(old, new),
        *((key, *(_served(options, key) for options in (old, new))) for key in OF_SERVED),
        ("cwd", str(old.cwd or "none"), str(new.cwd or "none")),
        ("inherit_env", *(str(options.borrowed.all).lower() for options in (old, new))),
        *((key, _word(read(old)), _word(read(new))) for key, read in SETTINGS.items()),
    ]
    changes = [f"{key}: {before} → {after}" for key, before, after in pairs if before != after]
    if variables := _changed_names(asked_env(old), asked_env(new)):
        changes.append(f"env: {variables}")
    if headers := _changed_names(asked_headers(old), asked_headers(new)):
        changes.append(f"headers: {headers}")
    return changes or ["something that is not shown here"]


def _programs(old: ServerOptions, new: ServerOptions) -> list[tuple[str, str, str]]:
    """What is run, before and after; of images and addresses each thing by itself."""
    if old.remote is not None and new.remote is not None:
        there, then = old.remote, new.remote
        return [
            ("url", masked(there.url), masked(then.url)),
            *((key, _word(read(there)), _word(read(then))) for key, read in OF_ADDRESSES.items()),
        ]
    if old.container is None or new.container is None:
        return [("command", shown_command(old.what), shown_command(new.what))]
    before, after = old.container, new.container
    return [
        ("image", before.image, after.image),
        ("args", shown_command(old.argv) or "none", shown_command(new.argv) or "none"),
        *((key, _word(read(before)), _word(read(after))) for key, read in OF_CONTAINERS.items()),
    ]


def _served(options: ServerOptions, key: str) -> str:
    """How a program of ours is spoken to; of one elsewhere that is told with its address."""
    return _word(OF_SERVED[key](options.served) if options.served is not None else None)


def _word(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Of variables or headers, by name only."""
    signs = dict.fromkeys(before.keys() - after.keys(), "-")
    signs |= dict.fromkeys(after.keys() - before.keys(), "+")
    signs |= {name: "~" for name in before.keys() & after.keys() if before[name] != after[name]}
    return ", ".join(f"{sign} {name}" for name, sign in sorted(signs.items()))
