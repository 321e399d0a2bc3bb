"""Tables that fill with what peers send: each has an end, and goes on to work there."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

import mooring
from mooring.http import guard, head, rules
from mooring.proxy import handshake_server
from mooring.wire import surrogates
from mooring.wire.http import Headers

CACHED = 256
"""Entries of a cache of a function, at most."""

FILLED: list[tuple[Any, Callable[[int], tuple[Any, ...]]]] = [
    (handshake_server._declared, lambda n: (b'{"c%d":{}}' % n,)),
    (rules.check_host, lambda n: (b"host-%d" % n, "1.1")),
    (rules.split_target, lambda n: ("GET", b"/%d" % n, b"host")),
    (guard._host_name, lambda n: (b"host-%d" % n,)),
    (guard._is_ip, lambda n: (f"host-{n}",)),
    (guard._is_loopback, lambda n: (f"host-{n}",)),
    (guard._is_loopback_origin, lambda n: (f"http://host-{n}",)),
]


def test_every_cache_of_a_function_is_known_here_and_bounded() -> None:
    names = [module.name for module in pkgutil.walk_packages(mooring.__path__, "mooring.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    functions = [
        value for module in modules for value in vars(module).values() if hasattr(value, "cache_info")
    ]
    ours = {function for function in functions if function.__module__.startswith("mooring.")}
    caches = {function for function in ours if signature(function).parameters}  # else it has one entry
    assert caches == {cache for cache, _ in FILLED}
    assert all(cache.cache_info().maxsize <= CACHED for cache in caches)


@pytest.mark.parametrize(("cache", "arguments"), FILLED)
def test_a_cache_that_is_full_goes_on(cache: Any, arguments: Callable[[int], tuple[Any, ...]]) -> None:
    answers = [cache(*arguments(n)) for n in range(2 * CACHED)]
    assert cache.cache_info().currsize == cache.cache_info().maxsize
    assert [cache(*arguments(n)) for n in range(2 * CACHED)] == answers
    cache.cache_clear()


def test_lines_of_heads_are_remembered_in_a_bounded_number_and_size() -> None:
    long = b"x" * head.REMEMBERED_BYTES
    for n in range(2 * head.REMEMBERED_LINES):
        headers: Headers = [(b"x-number", b"%d" % n), (b"x-long", long)]
        assert head.render_head(200, headers, [])[1:] == [b"x-number: %d\r\n" % n, b"x-long: %s\r\n" % long]
        assert len(head._lines) <= head.REMEMBERED_LINES
    assert all(len(line) <= head.REMEMBERED_BYTES for line in head._lines.values())


def test_half_characters_without_end_are_not_put_right() -> None:
    half = rb'"\ud83d"'
    assert surrogates.readable_copy(half * surrogates.MOST_ESCAPES) is not None
    assert surrogates.readable_copy(half * (surrogates.MOST_ESCAPES + 1)) is None
