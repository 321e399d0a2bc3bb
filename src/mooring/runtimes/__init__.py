"""Making a program exist, and making it end.

Owns child processes: their environment, pipes, output, exit, the Stop sequence, and the
guardian that ends them should this process be killed.

Does not know restart policy, MCP, or who reads what the program writes.
"""

from mooring.runtimes.environment import build_environment, parse_env_file, read_env_file
from mooring.runtimes.exits import Exit
from mooring.runtimes.output import Receiver
from mooring.runtimes.process import ProcessInstance
from mooring.runtimes.program import ProcessSpec
from mooring.runtimes.runtime import ProcessRuntime
from mooring.runtimes.stopping import StopOutcome, StopPatience

__all__ = [
    "Exit",
    "ProcessInstance",
    "ProcessRuntime",
    "ProcessSpec",
    "Receiver",
    "StopOutcome",
    "StopPatience",
    "build_environment",
    "parse_env_file",
    "read_env_file",
]
