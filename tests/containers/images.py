"""An image, made without a download: a tar as `docker load` takes it, with next to nothing in it.

What runs in its containers is the host's: `/usr` and the folder of Python are mounted.
"""

import hashlib
import io
import json
import os
import platform
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Any

from mooring.runtimes.containers.spec import Volume

NAME = "mooring-test:1"
FOREIGN = "mooring-foreign:1"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
LINKS = ("bin", "lib", "lib64")
FOLDERS = ("dev", "etc", "proc", "root", "sbin", "sys", "tmp", "usr")
"""`sbin` is one of its own: Docker puts its init process there."""
# An ELF file of 64 bits for s390x, which no machine of ours is.
FOREIGN_PROGRAM = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\x16" + bytes(100)


def base_image() -> bytes:
    """That of most tests."""
    return image(NAME, layer({}), {"Cmd": ["/bin/cat"], "Volumes": {"/data": {}}})


def foreign_image() -> bytes:
    """Its program is for another architecture."""
    return image(FOREIGN, layer({"server": FOREIGN_PROGRAM}), {"Entrypoint": ["/server"]}, "s390x")


def host_volumes() -> tuple[Volume, ...]:
    """What a container needs to run what the host has, our own package included."""
    source = Path(__file__).parents[2]
    folders = ["/usr", os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), str(source)]
    folders.append(sysconfig.get_paths()["purelib"])
    found: list[str] = []
    for folder in sorted(set(folders)):
        if not any(Path(folder).is_relative_to(there) for there in found):
            found.append(folder)
    return tuple(Volume(folder, folder, True) for folder in found)


def python(*arguments: str) -> tuple[str, ...]:
    """A command that runs our Python in the container."""
    return (sys.executable, "-u", *arguments)


def layer(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name in LINKS:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
        for name, content in files.items():
            _add(tar, name, content)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o755
    tar.addfile(info, io.BytesIO(content))


def image(name: str, content: bytes, config: dict[str, Any], architecture: str = ARCHITECTURE) -> bytes:
    about = {
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }
    encoded = json.dumps(about).encode()
    number = hashlib.sha256(encoded).hexdigest()
    manifest = [{"Config": f"{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _add(tar, f"{number}.json", encoded)
        _add(tar, "layer.tar", content)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return out.getvalue()
