"""Making a program exist in a container, and making it end: on Docker, and on Podman.

Owns finding an engine and talking to it, containers with their stdin and output, their exits, what becomes of
them by others' hands, and removing them, and only ours.

Does not know restart policy, MCP, or who reads what the program writes. Nothing here is imported unless a
server is to run in a container.
"""

from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.harbour import Harbour
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.leftovers import end_container_leftovers
from mooring.runtimes.containers.passing import ContainerPassport, PassedContainer
from mooring.runtimes.containers.pulling import Progress
from mooring.runtimes.containers.runtime import ContainerRuntime
from mooring.runtimes.containers.spec import ContainerSpec, Volume

__all__ = [
    "ContainerExit",
    "ContainerInstance",
    "ContainerPassport",
    "ContainerRuntime",
    "ContainerSpec",
    "Ending",
    "Harbour",
    "Owner",
    "PassedContainer",
    "Progress",
    "Volume",
    "end_container_leftovers",
]
