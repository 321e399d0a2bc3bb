"""`mooring k8s render`, as a user has it; and what it renders, run as a pod would run it."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.e2e.mooring import COMMAND, DEMO, LINUX_ONLY
from tests.e2e.program import Program
from tests.manifests import container, expanded, of_kind, pod
from tests.mcp_client import McpClient, client_of
from tests.support import PATIENCE_S, alive, within

RENDER = ("time", "--image", "example/mooring:1", "--replicas", "3", "--redis-secret", "redis-auth")
FILES = [
    "configmap.yaml",
    "kustomization.yaml",
    "networkpolicy.yaml",
    "poddisruptionbudget.yaml",
    "service-replicas.yaml",
    "service.yaml",
    "serviceaccount.yaml",
    "statefulset.yaml",
]
TOKEN = "a-token-for-the-tests"
STUBBORN = f"""\
import json, os, runpy, signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(sys.argv[1], str(os.getpid())).write_text(json.dumps(dict(os.environ)))
sys.argv[1:] = []
try:
    runpy.run_module({DEMO[-1]!r}, run_name="__main__")
finally:
    while True:
        signal.pause()
"""
"""Writes down its environment; neither the end of its input nor SIGTERM ends it."""


def render(*words: str, cwd: Path | None = None, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "k8s", "render", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        umask=umask,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def rendered(*words: str) -> list[dict[str, Any]]:
    done = render(*words)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_the_same_as_yaml_as_json_and_as_files(tmp_path: Path) -> None:
    command = ("--env", "ODD=$x\ny", "--", "uvx", "mcp-server-time", "yes")
    objects = rendered(*RENDER, *command)
    as_json = render(*RENDER, "--json", *command)
    assert json.loads(as_json.stdout) == {"apiVersion": "v1", "kind": "List", "items": objects}
    folder = tmp_path / "new" / "folder"
    for _ in ("first", "again"):
        done = render(*RENDER, "--out", str(folder), *command, umask=0o077)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == [str(folder / name) for name in FILES]
        assert sorted(path.name for path in folder.iterdir()) == FILES
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert [yaml.safe_load((folder / name).read_text()) for name in kustomization["resources"]] == objects


def test_talk_goes_to_stderr() -> None:
    done = render(*RENDER, "--env", "A=secret:github", "--", "uvx", "mcp-server-time")
    assert "redis-auth (key password), time-tokens (key tokens), " in done.stderr
    assert "time-tokens (key replica-key), github (key value)" in done.stderr
    assert "kubectl create secret generic redis-auth --from-file=password=FILE\n" in done.stderr
    assert (
        "kubectl create secret generic time-tokens --from-file=tokens=FILE --from-file=replica-key=FILE\n"
        in done.stderr
    )
    assert "note:" not in done.stdout
    assert "another image tomorrow" not in done.stderr
    told = render("x", "--image", "a", "-n", "tools", "--token-secret", "t", "--", "sh").stderr
    assert "in the memory of the one replica" in told
    assert "note: a may be another image tomorrow" in told
    assert "hint: kubectl create secret generic t -n tools --from-file=tokens=FILE\n" in told


def test_a_folder_is_one_servers(tmp_path: Path) -> None:
    folder = tmp_path / "time"
    assert render(*RENDER, "--out", str(folder), "--", "sh").returncode == 0
    before = {path.name: path.read_text() for path in folder.iterdir()}
    done = render("notes", "--image", "a:1", "--out", str(folder), "--", "sh")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{folder}/serviceaccount.yaml is of the server time\n" in done.stderr
    assert f"--out {tmp_path / 'notes'}\n" in done.stderr
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
    (mixed := tmp_path / "mixed").mkdir()
    (mixed / "service.yaml").write_text("kind: Service\nmetadata: {name: mine}\n")
    done = render(*RENDER, "--out", str(mixed), "--", "sh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "service.yaml was not written by mooring k8s render" in done.stderr
    assert [path.name for path in mixed.iterdir()] == ["service.yaml"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("x", "--image", "a", "--replicas", "3", "--", "sh"), "--redis-url"),
        (("x", "--image", "a", "--env", "API_KEY=canary", "--", "sh"), "--env API_KEY=secret:x-api-key"),
        (("x", "--image", "a"), "put the command after --"),
        (("x", "--image", "a", "-f", "no.toml"), "no.toml cannot be read"),
        (("x", "--image", "a", "-f", "bad.toml"), "bad.toml:2:1: command takes"),
        (("x", "--", "sh"), "--image IMAGE"),
        (("x", "--image", "a", "sh"), "write: mooring k8s render x --image a -- sh"),
        (("x", "--image", "a", "--json", "--out", "d", "--", "sh"), "leave out --json"),
        (("x", "--image", "a", "--out", "bad.toml/d", "--", "sh"), "cannot be written"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_printed(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "bad.toml").write_text("[servers.x]\ncommand = 3\n")
    done = render(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert told in done.stderr and "canary" not in done.stderr
    assert not (tmp_path / "d").exists()


def test_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mooring.toml").write_text(
        '[servers.time]\nfrom = "uvx:mcp-server-time"\nidle_timeout = "2h"\n'
    )
    done = render(*RENDER, cwd=tmp_path)
    words = container(list(yaml.safe_load_all(done.stdout)))["args"]
    assert words[-5:] == ["--idle-timeout", "2h", "--", "uvx", "mcp-server-time"]


class Pod:
    """What is rendered, run in a folder in place of a container."""

    def __init__(self, objects: list[dict[str, Any]], folder: Path, secrets: dict[str, str]) -> None:
        self.objects = objects
        self._root = folder
        for volume in pod(objects)["volumes"]:
            self._mount(volume, secrets)
        variables = {one["name"]: one.get("value", "") for one in container(objects)["env"]}
        self.environment = {
            "PATH": os.environ["PATH"],
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            **variables,
            "POD_IP": "127.0.0.1",
            "POD_NAMESPACE": "tools",
            "HOME": str(folder),
        }

    @property
    def grace_s(self) -> int:
        return int(pod(self.objects)["terminationGracePeriodSeconds"])

    def _mount(self, volume: dict[str, Any], secrets: dict[str, str]) -> None:
        paths = {mount["name"]: mount["mountPath"] for mount in container(self.objects)["volumeMounts"]}
        here = self._root / paths[volume["name"]].lstrip("/")
        here.mkdir(parents=True)
        for source in volume.get("projected", {}).get("sources", []):
            for item in source["secret"]["items"]:
                (here / item["path"]).write_text(secrets[f"{source['secret']['name']}/{item['key']}"])
        if "configMap" in volume:
            for name, text in of_kind(self.objects, "ConfigMap")["data"].items():
                (here / name).write_text(text)

    def words(self) -> list[str]:
        """But for where it listens: that is open to all, and always the same port."""
        elsewhere = {"0.0.0.0": "127.0.0.1", "4670": "0"}
        words = [expanded(word, self.environment) for word in container(self.objects)["args"]]
        end = words.index("--")
        folders = "|".join(mount["mountPath"] for mount in container(self.objects)["volumeMounts"])
        # In a value, too; each once, because this very folder is below /tmp.
        words[:end] = [re.sub(f"(?:{folders})/", rf"{self._root}\g<0>", word) for word in words[:end]]
        return [*(elsewhere.get(word, word) for word in words[:end]), *words[end:]]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[tuple[Program, int]]:
        """And its port."""
        run, foreground, name, *rest = self.words()
        argv: Sequence[str | Path] = [COMMAND, run, foreground, name, "--log-format", "json", *rest]
        async with Program(argv, listen_to="stderr", environment=self.environment) as program:
            async with within(60):
                line = await program.message(lambda one: one.get("event") == "listening")
            yield program, urlsplit(line["url"]).port or 0


async def probe(port: int, path: str) -> tuple[int, Any]:
    """Status and JSON, as the kubelet has it: without a token."""
    async with McpClient(port) as kubelet:
        answer = await (await kubelet.peer()).get(path)
        return answer.status, json.loads(answer.body)


@LINUX_ONLY
async def test_a_pod_serves_and_ends_within_its_grace_period(tmp_path: Path) -> None:
    seen, script = tmp_path / "seen", tmp_path / "server.py"
    seen.mkdir()
    script.write_text(STUBBORN)
    objects = rendered(
        *("time", "--image", "a:1", "--drain-delay", "200ms", "--drain-timeout", "2s", "--stop-grace", "60s"),
        *("--env", "ODD=$(POD_IP) $x\n'y'", "--env", "GITHUB_TOKEN=Bearer {secret:github}", "--spare", "0"),
        *("--secret", "github=gh/token", "--allow-host", "mcp.example.com"),
        *("--", sys.executable, str(script), str(seen)),
    )
    house = Pod(
        objects, tmp_path / "pod", {"time-tokens/tokens": f"me {TOKEN}\n", "gh/token": "s3cret-value\n"}
    )
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with house.running() as (program, port):
        async with within():
            while (await probe(port, "/readyz"))[0] != 200:
                await asyncio.sleep(0.02)
            assert (await probe(port, "/livez"))[0] == 200
        for host, status in {
            "time": 200,
            "time.tools:4670": 200,
            "time.tools.svc": 200,
            "time.tools.svc.cluster.local": 200,
            "mcp.example.com": 200,
            "10.1.2.3:4670": 200,
            "evil.example": 403,
        }.items():
            async with McpClient(port, headers={**bearer, "Host": host}) as client:
                body = client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
                assert (await client.raw("POST", body)).status == status, host
        async with McpClient(port) as stranger:
            assert (await stranger.raw("POST", stranger.request("ping"))).status == 401
        async with client_of(port, headers=bearer) as client:
            call = asyncio.create_task(
                client.ask("tools/call", {"name": "sleep", "arguments": {"seconds": 600}})
            )
            async with within():
                while (await probe(port, "/readyz"))[1]["calls_in_flight"] != 1:
                    await asyncio.sleep(0.02)
            [forever, *_] = [json.loads(path.read_text()) for path in seen.iterdir()]
            assert forever["ODD"] == "$(POD_IP) $x\n'y'"
            assert forever["GITHUB_TOKEN"] == "Bearer s3cret-value"
            assert not {"POD_IP", "KUBERNETES_SERVICE_HOST"} & forever.keys(), (
                "they are nobody's but Mooring's"
            )
            pids = [int(path.name) for path in seen.iterdir()]
            program.process.send_signal(signal.SIGTERM)
            async with within(house.grace_s):  # then comes SIGKILL
                assert (await call)["error"]["data"]["reason"] == "shutting_down"
                assert await program.ended() == 3
        assert not [pid for pid in pids if alive(pid)]
        assert "s3cret-value" not in program.told()
