"""What is freed is kept for the next message, within bounds: seen from outside, in a process of its own."""

import asyncio
import subprocess
import sys

import pytest

from mooring.host import allocator
from tests.support import until

PROGRAM = """
import resource
from mooring.host.allocator import IDLE_BYTES, LARGE_BYTES, keep_freed_memory

def faults_of(size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        pieces = [b"x" * size, b"y" * size, b"z" * size]
        del pieces
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

assert keep_freed_memory()
at_first = resident()
print(faults_of(1024 * 1024), faults_of(LARGE_BYTES * 2), resident() - at_first < IDLE_BYTES * 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_memory_is_used_again_and_what_lies_idle_is_bounded() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    of_small, of_large, bounded = done.stdout.split()
    pages_of_all_small = 50 * 3 * 256
    assert int(of_small) < pages_of_all_small / 10
    assert int(of_large) > pages_of_all_small  # given back each time
    assert bounded == "True"


AT_REST = """
import asyncio, sys
from mooring.host import allocator

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

async def main():
    allocator.LOOK_S = 0.01
    with allocator.giving_back_at_rest():
        blocks = [b"x" * 1024 * 1024 for _ in range(7)]
        del blocks
        idle = resident()
        for _ in range(1000):
            if idle - resident() > 6 * 1024 * 1024:
                return True
            await asyncio.sleep(0.01)

assert allocator.keep_freed_memory()
print(asyncio.run(main()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_at_rest_all_of_it_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", AT_REST], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


async def test_it_is_given_back_once_for_each_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    used = iter([0.0, 5.0, 5.01, 5.02, 9.0, 9.01, 9.02])
    now = 0.0

    def cpu() -> float:
        nonlocal now
        now = next(used, now)
        return now

    monkeypatch.setattr(allocator, "LOOK_S", 0.001)
    monkeypatch.setattr(allocator, "_of_the_c_library", lambda name: lambda pad: given.append(now))
    with allocator.giving_back_at_rest(cpu):
        await until(lambda: now == 9.02)
        await asyncio.sleep(0.05)
    assert given == [5.01, 9.01]
