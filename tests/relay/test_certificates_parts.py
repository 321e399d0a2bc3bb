"""The parts of which certificates are made, each by itself: when, for whom, and what TLS shows."""

import asyncio
import itertools
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import UserError
from mooring.http.client import Client
from mooring.http.listener import Listener
from mooring.http.origin import Origin
from mooring.relay.certificates.answers import Answers
from mooring.relay.certificates.client_hello import ClientHello
from mooring.relay.certificates.door import ACME_TLS, Door
from mooring.relay.certificates.entrance import open_certificates
from mooring.relay.certificates.issued import Issued
from mooring.relay.certificates.messages import Problem
from mooring.relay.certificates.names import check_authority_url, check_domains, check_email
from mooring.relay.certificates.policy import CertificatePolicy, due_at, next_look_s, retry_s
from mooring.relay.certificates.signing import answering_certificate
from mooring.wire.http import Exchange, Response
from tests.support import on_both_loops, within

POLICY = CertificatePolicy()
DAY_S = 86400.0
dice = st.floats(0, 1, exclude_max=True)
DOMAIN = "relay.example.com"


# When.


@pytest.mark.parametrize(("lifetime_days", "due_days"), [(90, 60), (45, 30), (6, 4)])
def test_it_is_due_when_a_third_is_left(lifetime_days: float, due_days: float) -> None:
    assert due_at(POLICY, 1000.0, 1000.0 + lifetime_days * DAY_S) == pytest.approx(1000.0 + due_days * DAY_S)


@settings(deadline=None)
@given(now=st.floats(0, 200 * DAY_S), lifetime_s=st.floats(1, 100 * DAY_S), random=dice)
def test_the_next_look_is_never_after_it_is_due(now: float, lifetime_s: float, random: float) -> None:
    wait_s = next_look_s(POLICY, now, 0, lifetime_s, random)
    due = due_at(POLICY, 0, lifetime_s)
    assert 0 <= wait_s <= POLICY.look_interval_s
    assert (wait_s == 0) == (now >= due)
    assert now + wait_s <= max(now, due) * (1 + 1e-12)


def test_a_look_without_need_is_twice_a_day() -> None:
    assert next_look_s(POLICY, 0, 0, 90 * DAY_S, 0.0) == 12 * 3600
    assert 10.8 * 3600 <= next_look_s(POLICY, 0, 0, 90 * DAY_S, 0.999) < 12 * 3600


def test_delays_after_failures() -> None:
    waits_s = [retry_s(POLICY, failures, None, 0.0) for failures in range(1, 9)]
    assert waits_s == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert retry_s(POLICY, 10**9, None, 0.0) == 3600


@settings(deadline=None)
@given(failures=st.integers(1, 100), random=dice, retry_after_s=st.none() | st.floats(0, 1e10))
def test_a_delay_is_what_the_authority_asks_for_or_more(
    failures: int, random: float, retry_after_s: float | None
) -> None:
    alone_s = retry_s(POLICY, failures, None, random)
    assert 60 <= alone_s <= 3600 * 1.25
    asked_s = min(retry_after_s or 0, 7 * DAY_S)
    assert retry_s(POLICY, failures, retry_after_s, random) == max(alone_s, asked_s)


# For whom.


def test_domains_are_told_as_dns_has_them() -> None:
    given_domains = ["Relay.Example.COM.", "relay.example.com", "xn--bcher-kva.example", " a.example "]
    assert check_domains(given_domains, 3) == (DOMAIN, "xn--bcher-kva.example", "a.example")


@pytest.mark.parametrize(
    "domains",
    [
        [],
        [""],
        ["https://relay.example.com"],
        ["relay.example.com:443"],
        ["relay..example.com"],
        ["-relay.example.com"],
        ["a_b.example.com"],
        ["*.example.com"],
        ["192.0.2.1"],
        ["[2001:db8::1]"],
        ["bücher.example"],
        ["x" * 64 + ".example"],
        [".".join(["x" * 60] * 5)],
        ["a.example", "b.example", "c.example", "d.example"],
    ],
)
def test_what_is_no_domain_is_refused(domains: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        check_domains(domains, 3)
    assert caught.value.code == "bad_domain"
    assert caught.value.hint


def test_addresses_to_write_to() -> None:
    assert check_email(None) is None
    assert check_email("admin@example.com") == "admin@example.com"
    for bad in ("", "admin", "a@b@c", "a@b,c@d", "a@b?x=y", "a b@c", "Admin <a@b>", "ä@b"):
        with pytest.raises(UserError, match="not an e-mail address"):
            check_email(bad)


def test_an_authority_is_spoken_to_by_https_only() -> None:
    assert check_authority_url("https://localhost:14000/dir")
    for bad in ("http://localhost/dir", "localhost", "https://", "https://[::1", "unix:/x", "https://x/#y"):
        with pytest.raises(UserError) as caught:
            check_authority_url(bad)
        assert caught.value.code == "bad_acme_directory"


async def test_bad_options_are_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        open_certificates(["*.example.com"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_problem_of_many_parts_is_one_line() -> None:
    parts = [Problem("urn:ietf:params:acme:error:dns", "no such name"), Problem(detail="no such name")]
    problem = Problem("urn:ietf:params:acme:error:compound", "two\nof them", parts)
    assert problem.kind == "compound"
    assert problem.words == "two of them; no such name"
    assert Problem("about:blank").words == "about:blank"


MISSING = """
import pathlib, sys
sys.modules["cryptography"] = None
from mooring.errors import UserError
from mooring.relay.certificates.entrance import open_certificates
try:
    open_certificates(["relay.example.com"], pathlib.Path("nowhere"))
except UserError as error:
    print(error.code, error.hint)
"""


def test_without_the_package_it_says_what_to_install() -> None:
    told = subprocess.run(
        [sys.executable, "-c", MISSING], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.startswith("acme_not_installed install it with: ")
    assert f"{sys.executable} -m pip install 'cryptography>=45'" in told.stdout


def test_the_entrance_loads_nothing_that_may_be_missing() -> None:
    loads = "import sys; import mooring.relay.certificates.entrance; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", loads], check=True, timeout=60)


# A certificate and its key.


def test_what_is_kept_is_read_as_it_was_written() -> None:
    pem = answering_certificate(DOMAIN, "x")
    key, chain = pem[: pem.index(b"-----BEGIN CERT")], pem[pem.index(b"-----BEGIN CERT") :]
    issued = Issued.assembled("https://a.example/dir", key, b"chatter\n" + chain + b"more\n" + chain, 2)
    assert b"chatter" not in issued.pem
    assert Issued.parsed(issued.pem) == issued
    assert issued.is_for("https://a.example/dir", (DOMAIN,))
    assert not issued.is_for("https://b.example/dir", (DOMAIN,)), "that of a test authority is no other's"
    assert not issued.is_for("https://a.example/dir", (DOMAIN, "other.example"))
    assert "PRIVATE" not in repr(issued)
    with pytest.raises(ValueError, match="chain of 3"):
        Issued.assembled("https://a.example/dir", key, chain * 3, 2)


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 2000))
def test_damage_is_always_seen_as_such(junk: bytes, at: int) -> None:
    pem = KEPT[:at] + junk + KEPT[at + len(junk) :]
    if pem == KEPT:
        assert Issued.parsed(pem).names == {DOMAIN}
    else:
        with pytest.raises(ValueError, match="not as it was written"):
            Issued.parsed(pem)


@settings(deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
def test_a_damaged_chain_is_refused_or_does_no_harm(at: int, junk: bytes) -> None:
    """Some of what an authority could send would still be a certificate, and not for that key."""
    der = bytearray(ssl.PEM_cert_to_DER_cert(_PEM[_CUT:].decode()))
    at %= len(der)
    der[at : at + len(junk)] = junk
    chain = ssl.DER_cert_to_PEM_cert(bytes(der)).encode()
    with suppress(ValueError, Warning):
        Issued.assembled("https://a.example/dir", _PEM[:_CUT], chain, 1)


_PEM = answering_certificate(DOMAIN, "x")
_CUT = _PEM.index(b"-----BEGIN CERT")
KEPT = Issued.assembled("https://a.example/dir", _PEM[:_CUT], _PEM[_CUT:], 1).pem


# What a client offers.


def hello(protocols: list[str]) -> bytes:
    """As OpenSSL sends it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if protocols:
        context.set_alpn_protocols(protocols)
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=DOMAIN)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def in_records(data: bytes, size: int) -> bytes:
    """The same message, in more records."""
    body = data[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(data[:3] + len(piece).to_bytes(2) + piece for piece in pieces)


offers = st.lists(st.sampled_from([ACME_TLS, "h2", "http/1.1", "x" * 255]), unique=True, max_size=4)


@settings(deadline=None)
@given(offers, st.integers(1, 600), st.lists(st.integers(1, 300), min_size=1))
def test_an_offer_is_read_however_it_arrives(protocols: list[str], size: int, cuts: list[int]) -> None:
    data, seen, at = in_records(hello(protocols), size), ClientHello(), 0
    for cut in itertools.cycle(cuts):
        seen.feed(data[at : at + cut])
        at += cut
        if at >= len(data):
            break
        assert not seen.is_complete
        assert not seen.protocols
    assert seen.is_complete
    assert seen.protocols == {name.encode() for name in protocols}


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_whatever_else_arrives_is_no_offer(data: bytes) -> None:
    seen = ClientHello()
    seen.feed(data)
    assert not seen.is_complete or ACME_TLS.encode() not in seen.protocols


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(0, 255))
def test_a_damaged_offer_does_no_harm(at: int, byte: int) -> None:
    data = bytearray(hello([ACME_TLS]))
    data[at % len(data)] = byte
    seen = ClientHello()
    seen.feed(bytes(data))
    seen.feed(b"\0" * 70000)
    assert seen.is_complete


def test_who_never_ends_is_not_listened_to_for_ever() -> None:
    seen = ClientHello()
    for _ in range(40):
        seen.feed(b"\x16\x03\x01\x01\xff" + b"\x01\xff\xff\xff" + b"x" * 507)
    assert seen.is_complete
    assert not seen.protocols


# What TLS shows.

CA = trustme.CA()


def chain_of(*names: str) -> bytes:
    made = CA.issue_cert(*names)
    return made.private_key_pem.bytes() + b"".join(pem.bytes() for pem in made.cert_chain_pems)


@asynccontextmanager
async def listening(door: Door) -> AsyncIterator[int]:
    listener = Listener(lambda exchange: exchange.respond(Response(200)))
    [(_, port)] = await listener.listen_tcp("127.0.0.1", 0, tls=door.context)
    try:
        async with within():
            yield port
    finally:
        await listener.aclose()


async def meet(
    port: int, *protocols: str, name: str = DOMAIN, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> tuple[bytes, str | None]:
    """Whom a client meets that trusts everybody: its certificate, and the protocol that was agreed upon."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    if protocols:
        context.set_alpn_protocols(list(protocols))
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    met = writer.get_extra_info("ssl_object")
    seen = met.getpeercert(binary_form=True), met.selected_alpn_protocol()
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
    return seen


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(
        (
            pem[pem.index(b"-----BEGIN CERTIFICATE") :].partition(b"-----END")[0]
            + b"-----END CERTIFICATE-----"
        ).decode()
    )


@on_both_loops
async def test_without_a_certificate_every_handshake_fails() -> None:
    door = Door()
    async with listening(door) as port:
        for _ in range(3):
            with pytest.raises(OSError):
                await meet(port, "http/1.1")
        door.show(one := chain_of(DOMAIN))
        assert await meet(port, "http/1.1") == (der(one), "http/1.1")


@on_both_loops
async def test_who_speaks_the_authoritys_protocol_is_shown_its_answer() -> None:
    door = Door()
    one, answer = chain_of(DOMAIN), answering_certificate(DOMAIN, "x")
    door.answer(DOMAIN, answer)
    async with listening(door) as port:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert await meet(port, ACME_TLS, version=version) == (der(answer), ACME_TLS)
            assert await meet(port, ACME_TLS, name=DOMAIN.upper(), version=version) == (der(answer), ACME_TLS)
        with pytest.raises(OSError):
            await meet(port, "http/1.1")
        door.show(one)
        assert await meet(port, ACME_TLS) == (der(answer), ACME_TLS)
        assert await meet(port, "h2", "http/1.1") == (der(one), "http/1.1")
        assert await meet(port, "h2") == (der(one), None)
        assert await meet(port) == (der(one), None)
        with pytest.raises(OSError):
            await meet(port, ACME_TLS, name="other.example")
        door.answer_no_more(DOMAIN)
        door.answer_no_more(DOMAIN)
        assert await meet(port, ACME_TLS) == (der(one), None)


@on_both_loops
async def test_an_authority_that_sends_byte_by_byte_is_understood() -> None:
    door = Door()
    door.show(chain_of(DOMAIN))
    door.answer(DOMAIN, answer := answering_certificate(DOMAIN, "x"))
    async with listening(door) as port:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([ACME_TLS])
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=DOMAIN)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                incoming.write(await reader.read(65536))
        assert client.getpeercert(binary_form=True) == der(answer)
        assert client.selected_alpn_protocol() == ACME_TLS
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def test_what_is_no_certificate_changes_nothing() -> None:
    door = Door()
    door.show(one := chain_of(DOMAIN))
    for bad in (b"", b"nothing", one.partition(b"-----BEGIN CERT")[0], one[:-300]):
        with pytest.raises(OSError):
            door.show(bad)
    async with listening(door) as port:
        assert await meet(port, "http/1.1") == (der(one), "http/1.1")


# Port 80.


async def test_port_80_tells_what_is_looked_for_and_nothing_else() -> None:
    answers = Answers(Door(), answering_certificate)
    told: list[Exchange] = []

    def serve(exchange: Exchange) -> None:
        told.append(exchange)
        answers.serve(exchange)

    listener = Listener(serve)
    [(_, port)] = await listener.listen_tcp("127.0.0.1", 0)
    client = Client(Origin(host="127.0.0.1", port=port))

    async def get(path: str, method: str = "GET") -> tuple[int, bytes]:
        response = await client.request(method, path, [])
        assert response.header(b"location") is None
        return response.status, await response.read(1024)

    prefix = "/.well-known/acme-challenge/"
    async with within():
        with answers.shown("http-01", DOMAIN, "token", "token.thumb"):
            assert await get(f"{prefix}token") == (200, b"token.thumb")
            assert await get(f"{prefix}token?x=y") == (200, b"token.thumb")
            for path in ("/", prefix, f"{prefix}Token", f"{prefix}token/", "/token", f"{prefix}../token"):
                assert (await get(path))[0] == 404
            assert (await get(f"{prefix}token", "POST"))[0] == 404
        assert (await get(f"{prefix}token"))[0] == 404
    assert len(told) == 10
    await client.aclose()
    await listener.aclose()
