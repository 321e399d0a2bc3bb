"""What is freed is kept for the next message, within bounds: seen from outside, in a process of its own."""

import subprocess
import sys

import pytest

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
