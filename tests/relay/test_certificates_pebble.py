"""Certificates from a real authority: pebble."""

import asyncio
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from mooring.errors import Unavailable, UserError
from mooring.http.client import Client
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.relay.certificates.entrance import open_certificates
from mooring.relay.certificates.keeper import Certificates
from mooring.relay.certificates.policy import Authority, CertificatePolicy
from mooring.wire.http import Exchange, Response
from tests.e2e.test_disk_trouble import small_disk
from tests.relay.pebble import BLOCKED, Pebble, pebble_running
from tests.support import on_both_loops, until, within

DOMAIN = "relay.example.com"
QUICK = CertificatePolicy(first_poll_s=0.02)
ANY_CLOCK = CertificatePolicy(first_poll_s=0.02, max_clock_skew_s=float("inf"))
"""For tests in which we are ahead of the authority."""
DAY_S = 86400.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Time:
    """A clock that can be set, and naps that end when it has reached their end."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.naps: list[float] = []
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        self.rules: Any = {"wall": self.wall, "sleep": self.sleep, "policy": ANY_CLOCK}
        """For who lives by it."""

    def wall(self) -> float:
        return time.time() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        over = asyncio.get_running_loop().create_future()
        self._waiting.append((self.wall() + seconds, over))
        await over

    async def resting(self, naps: int) -> None:
        """Until somebody has gone to sleep for the so-manieth time."""
        await until(lambda: len(self.naps) >= naps, 60)

    def pass_(self, seconds: float) -> None:
        self.ahead_s += seconds
        for ends_at, over in self._waiting:
            if ends_at <= self.wall() and not over.done():
                over.set_result(None)


@asynccontextmanager
async def renewing(certificates: Certificates) -> AsyncIterator[None]:
    task = asyncio.create_task(certificates.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    with pebble_running(tmp_path_factory.mktemp("pebble")) as running:
        yield running


def hello(exchange: Exchange) -> None:
    exchange.respond(Response(200, b"hello"))


@asynccontextmanager
async def relay(
    pebble: Pebble,
    folder: Path,
    *domains: str,
    port_80: bool = True,
    port_443: bool = True,
    **options: Any,
) -> AsyncIterator[Certificates]:
    """What `mooring relay` does about certificates."""
    options.setdefault("policy", QUICK)
    authority = options.pop("authority", pebble.authority)
    certificates = open_certificates(domains or [DOMAIN], folder, authority, **options)
    plain, secure = Listener(certificates.challenges), Listener(hello)
    try:
        if port_80:
            await plain.listen_tcp("127.0.0.1", pebble.http_port)
            certificates.has_port_80 = True
        if port_443:
            await secure.listen_tcp("127.0.0.1", pebble.tls_port, tls=certificates.context)
        yield certificates
    finally:
        await plain.aclose()
        await secure.aclose()
        await certificates.aclose()


async def connect(pebble: Pebble, trust: ssl.SSLContext, domain: str = DOMAIN) -> Connection:
    return await asyncio.open_connection("127.0.0.1", pebble.tls_port, ssl=trust, server_hostname=domain)


async def ask(connection: Connection) -> bytes:
    reader, writer = connection
    writer.write(b"GET / HTTP/1.1\r\nHost: relay.example.com\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(5)


async def hang_up(connection: Connection) -> None:
    connection[1].transport.abort()
    with suppress(OSError):
        await connection[1].wait_closed()


def serial(connection: Connection) -> str:
    certificate = connection[1].get_extra_info("peercert")
    assert certificate is not None
    return str(certificate["serialNumber"])


async def shown(pebble: Pebble, domain: str = DOMAIN) -> str:
    """The serial number of the certificate that somebody sees who trusts the authority."""
    connection = await connect(pebble, pebble.trust(), domain)
    try:
        assert await ask(connection) == b"hello"
        return serial(connection)
    finally:
        await hang_up(connection)


@on_both_loops
async def test_the_first_certificate_comes_by_http_01(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path / "c") as certificates:
        assert certificates.challenge == "http-01"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(pebble, pebble.trust())
        await certificates.obtain()
        assert await shown(pebble)
        status = certificates.status
        assert status.last_error is None
        assert status.is_kept
        assert status.valid_until is not None
        assert status.valid_from is not None
        assert status.valid_until - status.valid_from == pytest.approx(90 * 86400, abs=2)
        assert "Pebble" in (status.issuer or "")
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    files = list((tmp_path / "c").iterdir())
    assert len(files) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@on_both_loops
async def test_the_first_certificate_comes_by_tls_alpn_01(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path, port_80=False) as certificates:
        assert certificates.challenge == "tls-alpn-01"
        await certificates.obtain()
        assert await shown(pebble)


async def test_a_certificate_for_two_domains(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path, "A.example.com", "b.example.com", port_80=False) as both:
        await both.obtain()
        assert await shown(pebble, "a.example.com") == await shown(pebble, "b.example.com")


# Renewal.


@on_both_loops
async def test_a_renewal_is_seen_by_new_handshakes_and_not_by_open_connections(
    pebble: Pebble, tmp_path: Path
) -> None:
    clock = Time()
    async with within(60), relay(pebble, tmp_path, **clock.rules) as certificates:
        await certificates.obtain()
        kept, trust = (tmp_path / "certificate.pem").read_bytes(), pebble.trust()
        old = await connect(pebble, trust)
        assert await ask(old) == b"hello"
        async with renewing(certificates):
            await clock.resting(1)
            looks = 1
            while clock.ahead_s < 59 * DAY_S:  # it looks at the clock twice a day, and orders nothing
                requests = pebble.requests
                clock.pass_(DAY_S / 2)
                looks += 1
                await clock.resting(looks)
                assert pebble.requests == requests
            clock.pass_(2 * DAY_S)
            await clock.resting(looks + 1)
        assert certificates.status.last_error is None
        new = await connect(pebble, trust)
        assert serial(new) != serial(old)
        for connection in (old, new, old):
            assert await ask(connection) == b"hello"
        await hang_up(old)
        await hang_up(new)
    assert (tmp_path / "certificate.pem").read_bytes() != kept


async def test_a_short_lived_certificate_is_renewed_by_the_real_clock(tmp_path: Path) -> None:
    (tmp_path / "pebble").mkdir()
    policy = CertificatePolicy(first_poll_s=0.02, left_for_renewal=0.9)
    with pebble_running(tmp_path / "pebble", lifetime_s=20) as pebble:
        async with within(60), relay(pebble, tmp_path / "c", policy=policy) as certificates:
            await certificates.obtain()
            first = certificates.status.valid_until
            async with renewing(certificates):
                await until(lambda: certificates.status.valid_until != first)
            assert await shown(pebble)


async def test_everybody_is_served_while_an_authority_looks(pebble: Pebble, tmp_path: Path) -> None:
    """By TLS-ALPN-01, one port has two certificates for one name in the same moment."""
    clock = Time()
    async with within(60), relay(pebble, tmp_path, port_80=False, **clock.rules) as certificates:
        await certificates.obtain()
        trust, first, served = pebble.trust(), await shown(pebble), 0

        async def keep_asking() -> None:
            nonlocal served
            while True:
                connection = await connect(pebble, trust)
                try:
                    assert await ask(connection) == b"hello"
                finally:
                    await hang_up(connection)
                served += 1

        asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
        await until(lambda: served)
        clock.ahead_s = 61 * DAY_S
        async with renewing(certificates):
            await clock.resting(1)
            clock.pass_(0)
            await clock.resting(2)
        before = served
        await until(lambda: served > before + 4)
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert all(task.cancelled() for task in asking)
        assert await shown(pebble) != first


async def test_an_authority_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    clock = Time()
    (tmp_path / "pebble").mkdir()
    with pebble_running(tmp_path / "pebble") as pebble:
        async with within(60), relay(pebble, tmp_path / "c", **clock.rules) as certificates:
            await certificates.obtain()
            first = await shown(pebble)
            trust = pebble.trust()
            pebble.stop()
            clock.ahead_s = 61 * DAY_S
            async with renewing(certificates):
                for attempt in range(1, 5):
                    await clock.resting(attempt)
                    clock.pass_(clock.naps[-1])
                await clock.resting(5)
                status = certificates.status
                assert status.last_error is not None
                assert status.last_error.code == "authority_unreachable"
                assert status.next_attempt_at == pytest.approx(clock.wall() + clock.naps[-1], abs=60)
                waits = clock.naps[1:]
                assert all(60 * 2**n <= wait <= 1.25 * 60 * 2**n for n, wait in enumerate(waits)), waits
                old = await connect(pebble, trust)
                assert serial(old) == first, "there is still the one before"
                await hang_up(old)
                pebble.start()
                clock.pass_(clock.naps[-1])
                await clock.resting(6)
            assert certificates.status.last_error is None
            assert await shown(pebble) != first


# What is kept.


async def test_a_restart_uses_what_is_kept_and_asks_nobody(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
        first = await shown(pebble)
    requests = pebble.requests
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
        assert await shown(pebble) == first
        assert certificates.status.valid_until is not None
    assert pebble.requests == requests


async def test_what_is_kept_is_not_used_for_another_domain(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
        first = await shown(pebble)
    accounts = pebble.log.count("accounts in memory")
    async with within(60), relay(pebble, tmp_path, DOMAIN, "other.example.com") as certificates:
        await certificates.obtain()
        assert await shown(pebble, "other.example.com") != first
    assert pebble.log.count("accounts in memory") == accounts, "the account is the same"


async def test_what_is_over_is_not_used(pebble: Pebble, tmp_path: Path) -> None:
    clock = Time()
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
    pebble_requests = pebble.requests
    clock.ahead_s = 91 * DAY_S
    async with within(60), relay(pebble, tmp_path, wall=clock.wall, policy=ANY_CLOCK) as certificates:
        with pytest.raises(UserError, match="at the authority"):  # which is behind, and so is what it signs
            await certificates.obtain()
    assert pebble.requests > pebble_requests


async def test_what_is_not_good_yet_is_used_with_a_warning(
    pebble: Pebble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may well be the clock that is wrong, and nothing better is to be had."""
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
        first = await shown(pebble)
    clock, requests = Time(), pebble.requests
    clock.ahead_s = -30 * DAY_S
    async with within(60), relay(pebble, tmp_path, wall=clock.wall) as certificates:
        await certificates.obtain()
        assert await shown(pebble) == first
    assert pebble.requests == requests
    assert "is the clock right?" in caplog.text


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "no PEM": lambda data: b"\0" * 4096,
    "cut": lambda data: data[: len(data) // 2],
    "a bit": lambda data: data.replace(b"MII", b"MIJ"),
    "no key": lambda data: data[data.index(b"-----BEGIN CERTIFICATE") :],
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_files_are_set_aside(pebble: Pebble, tmp_path: Path, damage: str) -> None:
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        file.write_bytes(DAMAGES[damage](file.read_bytes()) if file.suffix == ".pem" else b'{"key": "x"}')
    async with within(60), relay(pebble, tmp_path) as certificates:
        await certificates.obtain()
        assert await shown(pebble)
    asides = [file.with_name(f"{file.name}.damaged") for file in files]
    assert sorted(tmp_path.iterdir()) == sorted([*files, *asides])


async def test_a_key_that_belongs_to_another_certificate(pebble: Pebble, tmp_path: Path) -> None:
    for name in ("one", "two"):
        async with within(60), relay(pebble, tmp_path / name) as certificates:
            await certificates.obtain()
    one, two = ((tmp_path / name / "certificate.pem").read_bytes() for name in ("one", "two"))
    begin = b"-----BEGIN CERTIFICATE"
    mixed = one[: one.index(begin)] + two[two.index(begin) :]
    (tmp_path / "one" / "certificate.pem").write_bytes(mixed)
    async with within(60), relay(pebble, tmp_path / "one") as certificates:
        await certificates.obtain()
        assert await shown(pebble)
    assert (tmp_path / "one" / "certificate.pem.damaged").read_bytes() == mixed


@pytest.mark.parametrize("what", ["folder", "certificate", "account"])
async def test_what_others_can_read_is_refused(pebble: Pebble, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "c"
    async with within(60), relay(pebble, folder) as certificates:
        await certificates.obtain()
    [account] = folder.glob("account-*.json")
    path = {"folder": folder, "certificate": folder / "certificate.pem", "account": account}[what]
    path.chmod(path.stat().st_mode | 0o040)
    if what == "account":
        (folder / "certificate.pem").unlink()
    async with within(60), relay(pebble, folder) as certificates:
        with pytest.raises(UserError) as caught:
            await certificates.obtain()
        assert caught.value.code == "open_to_others"
        assert str(path) in caught.value.message
        assert "chmod" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_the_folder_of_somebody_else_is_refused(pebble: Pebble, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(mode=0o700)
    os.chown(tmp_path / "c", 65534, 65534)
    async with within(60), relay(pebble, tmp_path / "c") as certificates:
        with pytest.raises(UserError, match="another user") as caught:
            await certificates.obtain()
        assert caught.value.code == "not_our_file"
    assert list((tmp_path / "c").iterdir()) == []


KILLED = """
import asyncio, os, pathlib, signal, sys
from tests.relay.pebble import Pebble
from tests.relay.test_certificates_pebble import relay
from mooring.relay.certificates.policy import Authority

folder, url, ca_file, http_port, tls_port, survived = sys.argv[1:]
left = int(survived)
replace = pathlib.Path.replace

def replaced(self, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return replace(self, target)

class There:
    authority = Authority(url=url, ca_file=pathlib.Path(ca_file))

There.http_port, There.tls_port = int(http_port), int(tls_port)

async def main():
    async with relay(There, pathlib.Path(folder)) as certificates:
        await certificates.obtain()

pathlib.Path.replace = replaced
asyncio.run(main())
"""


@pytest.mark.parametrize("survived", [0, 1])
async def test_who_is_killed_before_a_file_is_in_its_place(
    pebble: Pebble, tmp_path: Path, survived: int
) -> None:
    folder = tmp_path / "c"
    where = (folder, pebble.url, pebble.ca_file, pebble.http_port, pebble.tls_port, survived)
    async with within(60):
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, *map(str, where))
        assert await child.wait() == -signal.SIGKILL
    names = [path.name.partition("-")[0] for path in sorted(folder.iterdir())]
    accounts = pebble.log.count("accounts in memory")
    assert names == [["account"], ["account", "certificate.pem.new"]][survived]
    async with within(60), relay(pebble, folder) as certificates:
        await certificates.obtain()
        assert await shown(pebble)
    assert len(list(folder.iterdir())) == 2
    made = pebble.log.count("accounts in memory") - accounts
    assert made == 1 - survived, "an account that is in its place is used again"


async def test_a_disk_that_becomes_full_while_it_is_ordered(pebble: Pebble, tmp_path: Path) -> None:
    """The certificate is used all the same, and written once there is room: no second one is ordered."""
    clock = Time()
    with small_disk(tmp_path / "disk") as disk:
        folder = disk._seen / "c"
        async with within(60), relay(pebble, folder, port_80=False, sleep=clock.sleep) as certificates:

            def fill_and_answer(exchange: Exchange) -> None:
                disk.fill()
                certificates.challenges(exchange)

            plain = Listener(fill_and_answer)
            await plain.listen_tcp("127.0.0.1", pebble.http_port)
            certificates.has_port_80 = True
            await certificates.obtain()
            await plain.aclose()
            trouble = certificates.status.last_error
            assert trouble is not None
            assert (trouble.code, certificates.status.is_kept) == ("disk_full", False)
            first, requests = await shown(pebble), pebble.requests
            async with renewing(certificates):
                await clock.resting(1)
                clock.pass_(clock.naps[-1])
                await clock.resting(2)
                assert not (folder / "certificate.pem").exists()
                disk.make_room()
                clock.pass_(clock.naps[-1])
                await clock.resting(3)
            assert (certificates.status.last_error, certificates.status.is_kept) == (None, True)
            assert pebble.requests == requests
        async with within(60), relay(pebble, folder) as certificates:
            await certificates.obtain()
            assert await shown(pebble) == first


async def test_a_disk_that_is_full_is_told_before_anything_is_ordered(pebble: Pebble, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        folder, requests = disk._seen / "c", pebble.requests
        folder.mkdir(mode=0o700)
        disk.fill()
        async with within(60), relay(pebble, folder) as certificates:
            with pytest.raises(UserError, match="No space left") as caught:
                await certificates.obtain()
            assert caught.value.code == "disk_full"
        assert pebble.requests == requests


# What is refused.


@pytest.mark.parametrize("challenge", ["http-01", "tls-alpn-01"])
async def test_a_challenge_that_fails_is_told_in_the_words_of_the_authority(
    pebble: Pebble, tmp_path: Path, challenge: str
) -> None:
    """The domain leads here, but nobody listens there."""
    nowhere: Any = {"port_80": False, "port_443": False, "challenge": challenge}
    words = {"http-01": "connection refused", "tls-alpn-01": "Failed to connect to 127.0.0.1"}[challenge]
    async with within(60), relay(pebble, tmp_path, **nowhere) as certificates:
        with pytest.raises(Unavailable, match=words) as caught:
            await certificates.obtain()
        assert caught.value.code == "challenge_failed"
        assert DOMAIN in caught.value.message and challenge in caught.value.message
        assert f"port {80 if challenge == 'http-01' else 443} of {DOMAIN}" in caught.value.hint
        assert certificates.status.last_error is not None
        assert certificates.status.last_error.message == caught.value.message


async def test_a_domain_for_which_nothing_is_signed(pebble: Pebble, tmp_path: Path) -> None:
    async with within(60), relay(pebble, tmp_path, BLOCKED) as certificates:
        with pytest.raises(UserError, match="signs nothing") as caught:
            await certificates.obtain()
        assert caught.value.code == "domain_refused"


async def test_an_authority_that_wants_an_invitation(tmp_path: Path) -> None:
    (tmp_path / "pebble").mkdir()
    with pebble_running(tmp_path / "pebble", invitation=True) as pebble:
        async with within(60), relay(pebble, tmp_path / "c") as certificates:
            with pytest.raises(UserError, match="refuses the account") as caught:
                await certificates.obtain()
            assert caught.value.code == "account_refused"
            assert "--acme-directory" in caught.value.hint


async def test_an_address_to_write_to_can_change(pebble: Pebble, tmp_path: Path) -> None:
    for email in ("one@example.com", "two@example.com"):
        known = Authority(url=pebble.url, ca_file=pebble.ca_file, email=email)
        (tmp_path / "certificate.pem").unlink(missing_ok=True)
        async with within(60), relay(pebble, tmp_path, authority=known) as certificates:
            await certificates.obtain()
        [account] = tmp_path.glob("account-*.json")
        assert email in account.read_text()
    assert "POST /my-account/" in pebble.log


async def test_who_is_not_the_authority_is_not_trusted(pebble: Pebble, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    other = Authority(url=pebble.url, ca_file=tmp_path / "ca.pem")
    async with within(60), relay(pebble, tmp_path / "c", authority=other) as certificates:
        with pytest.raises(UserError) as caught:
            await certificates.obtain()
        assert caught.value.code == "authority_not_trusted"
        assert "--acme-ca-file" in caught.value.hint


async def test_a_ca_file_that_is_none(pebble: Pebble, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    other = Authority(url=pebble.url, ca_file=tmp_path / "ca.pem")
    async with within(60), relay(pebble, tmp_path / "c", authority=other) as certificates:
        with pytest.raises(UserError) as caught:
            await certificates.obtain()
        assert caught.value.code == "ca_file_unusable"


@pytest.mark.parametrize("ahead_days", [-30, 30])
async def test_a_clock_that_is_wrong(pebble: Pebble, tmp_path: Path, ahead_days: int) -> None:
    clock, orders = Time(), pebble.log.count("Added order")
    clock.ahead_s = ahead_days * DAY_S
    async with within(60), relay(pebble, tmp_path, wall=clock.wall) as certificates:
        with pytest.raises(UserError) as caught:
            await certificates.obtain()
        assert caught.value.code == "clock_wrong"
        assert "timedatectl" in caught.value.hint
    assert pebble.log.count("Added order") == orders


async def test_an_authority_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "pebble").mkdir()
    with pebble_running(tmp_path / "pebble") as pebble:
        pebble.suspend()
        policy = CertificatePolicy(request_timeout_s=0.3)
        async with within(60), relay(pebble, tmp_path / "c", policy=policy) as certificates:
            with pytest.raises(Unavailable, match=r"within 0\.3 s") as caught:
                await certificates.obtain()
            assert caught.value.code == "authority_unreachable"


async def test_who_gives_up_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """The authority falls asleep once it has begun to look."""
    (tmp_path / "pebble").mkdir()
    with pebble_running(tmp_path / "pebble") as pebble:
        async with within(60), relay(pebble, tmp_path / "c", port_80=False) as certificates:
            answer, asked = certificates.challenges, asyncio.Event()
            seen: list[str] = []

            def fall_asleep(exchange: Exchange) -> None:
                pebble.suspend()
                seen.append(exchange.request.path)
                asked.set()
                answer(exchange)

            plain = Listener(fall_asleep)
            await plain.listen_tcp("127.0.0.1", pebble.http_port)
            certificates.has_port_80 = True
            obtaining = asyncio.create_task(certificates.obtain())
            await asked.wait()
            obtaining.cancel()
            await asyncio.wait([obtaining])
            assert obtaining.cancelled()
            client = Client(Origin(host="127.0.0.1", port=pebble.http_port))
            response = await client.request("GET", seen[0], [])
            assert response.status == 404, "what was to be shown is not shown any more"
            response.close()
            await client.aclose()
            await plain.aclose()


async def test_nonces_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pebble").mkdir()
    with pebble_running(tmp_path / "pebble", nonces_refused=25) as pebble:
        for attempt in range(1, 11):
            async with within(60), relay(pebble, tmp_path / f"{attempt}") as certificates:
                await certificates.obtain()
                assert await shown(pebble)
            # Without a refusal, each of these is asked once in an order.
            asked = re.findall(r"POST /(sign-me-up|order-plz|chalZ|finalize-order)", pebble.log)
            if len(asked) > 4 * attempt:
                return
    raise AssertionError("none was refused")
