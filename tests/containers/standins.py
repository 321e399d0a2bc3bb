"""Images that stand in for those of a registry, made of this machine's own programs and what these load.

`python:VERSION-slim`, `redis:…` and their like then have the paths that the real ones have, and no more.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.containers.images import image
from tests.parts import wheels_of

__all__ = ["WHEELS", "of_programs", "of_python", "of_uv"]

WHEELS = "/wheels"
SHELL = {"sh": "bin", "ln": "bin", "id": "bin", "groupadd": "sbin", "useradd": "sbin", "nologin": "sbin"}
"""What a Dockerfile runs or names, and a test."""
FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": b"root:x:0:\n",
    "etc/shadow": b"root:*:1:0:99999:7:::\n",
    "etc/gshadow": b"root:*::\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Root:
    """A file system in the making."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._out, mode="w")  # noqa: SIM115 - closed by `done`
        self._there: set[str] = set()
        for name in FOLDERS:
            self.folder(name)
        for name, where in LINKS.items():
            self.link(name, where)

    def folder(self, name: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        self._tar.addfile(entry)

    def link(self, name: str, where: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, where
        self._tar.addfile(entry)

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        if name not in self._there:
            self._there.add(name)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            self._tar.addfile(entry, io.BytesIO(content))

    def program(self, source: Path, name: str) -> None:
        """With all that it loads."""
        self.write(name, source.read_bytes(), 0o755)
        self.libraries([source])

    def libraries(self, loaders: Iterable[Path]) -> None:
        said = subprocess.run(
            ["ldd", *map(str, loaders)], capture_output=True, text=True, check=False, timeout=60
        ).stdout
        for found in LIBRARY.findall(said):
            path = Path(found)
            folder = "usr/lib64" if path.name.startswith("ld-linux") else "usr/lib"
            self.write(f"{folder}/{path.name}", path.read_bytes(), 0o755)

    def tree(self, source: Path, name: str, without: frozenset[str] = frozenset()) -> None:
        for folder, folders, files in os.walk(source):
            folders[:] = sorted(set(folders) - without)
            for file in files:
                path = Path(folder, file)
                if path.is_file():
                    self.write(f"{name}/{path.relative_to(source)}", path.read_bytes())

    def done(self) -> bytes:
        self._tar.close()
        return self._out.getvalue()


def of_programs(name: str, programs: Mapping[str, str], command: Sequence[str] = ("sh",)) -> bytes:
    """An image with these programs, or folders, each at its path, and a shell."""
    root = Root()
    _shell(root)
    for program, path in programs.items():
        if program:
            root.program(_found(program), path.lstrip("/"))
        else:
            root.folder(path.lstrip("/"))
    return image(name, root.done(), {"Env": [f"PATH={PATH}"], "Cmd": list(command)})


def of_python(name: str) -> bytes:
    """An image with this Python where `python:VERSION-slim` has it; and wheels, in place of the internet."""
    root = Root()
    _shell(root)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    home = Path(os.path.realpath(sys.base_prefix))
    root.program(home / "bin" / version, f"usr/local/bin/{version}")
    for link in ("python", "python3"):
        root.link(f"usr/local/bin/{link}", version)
    library = Path(sysconfig.get_path("stdlib"))
    parts = frozenset(
        {"site-packages", "test", "idlelib", "tkinter", "turtledemo", "__pycache__", "ensurepip"}
    )
    parts |= {path.name for path in library.glob("config-*")}
    root.tree(library, f"usr/local/lib/{version}", parts)
    root.folder(f"usr/local/lib/{version}/site-packages")
    root.libraries(sorted((library / "lib-dynload").glob("*.so")))
    with tempfile.TemporaryDirectory() as folder:  # the real one of its image needs nothing
        uv = Path(folder, "uv")
        uv.write_bytes(_uv()["uv"])
        uv.chmod(0o755)
        root.libraries([uv])
    for wheel in wheels_of("image"):
        if not wheel.name.startswith("uv-"):
            root.write(f"{WHEELS.lstrip('/')}/{wheel.name}", wheel.read_bytes())
    offline = ["UV_OFFLINE=1", "UV_NO_INDEX=1", f"UV_FIND_LINKS={WHEELS}", "UV_PYTHON_DOWNLOADS=never"]
    return image(name, root.done(), {"Env": [f"PATH={PATH}", *offline]})


def of_uv(name: str) -> bytes:
    """The real uv, out of its wheel."""
    root = Root()
    for program, content in _uv().items():
        root.write(program, content, 0o755)
    return image(name, root.done(), {"Cmd": ["/uv"]})


def _uv() -> dict[str, bytes]:
    [wheel] = [path for path in wheels_of("image") if path.name.startswith("uv-")]
    with zipfile.ZipFile(wheel) as packed:
        members = [name for name in packed.namelist() if name.endswith(("/scripts/uv", "/scripts/uvx"))]
        return {Path(name).name: packed.read(name) for name in members}


def _shell(root: Root) -> None:
    for program, where in SHELL.items():
        root.program(_found(program), f"usr/{where}/{program}")
    for path, content in ACCOUNTS.items():
        root.write(path, content, 0o640 if "shadow" in path else 0o644)


def _found(program: str) -> Path:
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found is not None, f"{program} is not on this machine"
    return Path(os.path.realpath(found))
