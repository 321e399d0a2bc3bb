"""What pebble never says: an authority of our own, over real TLS, that says it."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import trustme

from mooring.errors import MooringError, Unavailable, UserError
from mooring.http.listener import Listener
from mooring.relay.certificates import keeper
from mooring.relay.certificates.entrance import open_certificates
from mooring.relay.certificates.folder import Folder
from mooring.relay.certificates.keeper import Certificates
from mooring.relay.certificates.policy import Authority, CertificatePolicy
from mooring.wire.http import Exchange, Response
from tests.support import until, within

TOKEN = "a-token-that-is-long-enough"
ERROR = "urn:ietf:params:acme:error:"


def says(status: int, body: object, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, json.dumps(body).encode(), [(b"replay-nonce", b"n"), *headers])


def directory(**places: str) -> Response:
    return Response(200, json.dumps(places).encode())


def problem(
    kind: str, status: int = 403, *headers: tuple[bytes, bytes], detail: str = "no, thanks"
) -> Response:
    return says(status, {"type": ERROR + kind, "detail": detail}, *headers)


class Scripted:
    """Says what a test has it say, and otherwise goes along up to the certificate, which it does not have."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.says: dict[str, list[Response]] = {}
        """By path; the last one again and again."""
        self.url = ""

    def begin(self, base: str) -> None:
        def at(path: str) -> str:
            return f"{base}{path}"

        self.url = at("/dir")
        offers = [{"type": "http-01", "url": at("/challenge"), "token": TOKEN, "status": "pending"}]
        order = {"status": "ready", "authorizations": [at("/authz")], "finalize": at("/finalize")}
        names = {"identifier": {"type": "dns", "value": "relay.example.com"}, "challenges": offers}
        placed = {**order, "status": "valid", "certificate": at("/certificate")}
        usual = {
            "/dir": directory(newNonce=at("/nonce"), newAccount=at("/account"), newOrder=at("/orders")),
            "/nonce": Response(204, b"", [(b"replay-nonce", b"n")]),
            "/account": says(201, {"status": "valid"}, (b"location", at("/account/1").encode())),
            "/orders": says(201, order, (b"location", at("/order").encode())),
            "/authz": says(200, {"status": "valid", **names}),
            "/challenge": says(200, offers[0]),
            "/order": says(200, placed),
            "/finalize": says(200, placed),
            "/certificate": Response(200, b"nothing", [(b"replay-nonce", b"n")]),
        }
        self.says = {path: [response] for path, response in usual.items()}
        self.pending: dict[str, Any] = {"status": "pending", **names}
        self.order: dict[str, Any] = order

    def serve(self, exchange: Exchange) -> None:
        path = exchange.request.path
        self.asked.append(path)
        answers = self.says.get(path, [Response(404, b"?")])
        exchange.respond(answers.pop(0) if len(answers) > 1 else answers[0])


@asynccontextmanager
async def ordering(folder: Path, **bounds: Any) -> AsyncIterator[tuple[Scripted, Certificates]]:
    """Certificates of an authority that says what it is told to say."""
    ca, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    scripted = Scripted()
    listener = Listener(scripted.serve)
    [(_, port)] = await listener.listen_tcp("127.0.0.1", 0, tls=context)
    scripted.begin(f"https://localhost:{port}")
    authority = Authority(url=scripted.url, ca_file=folder / "ca.pem")
    policy = CertificatePolicy(first_poll_s=0.01, **bounds)
    certificates = open_certificates(
        ["relay.example.com"], folder / "c", authority, challenge="http-01", policy=policy
    )
    try:
        async with within():
            yield scripted, certificates
    finally:
        await certificates.aclose()
        await listener.aclose()


async def refusal(certificates: Certificates) -> MooringError:
    with pytest.raises(MooringError) as caught:
        await certificates.obtain()
    status = certificates.status
    assert status.last_error is not None
    assert (status.last_error.code, status.last_error.message) == (caught.value.code, caught.value.message)
    assert caught.value.hint
    return caught.value


AS_A_DATE = b"as a date, two hours from now"
IN_A_YEAR = b"31536000"


@pytest.mark.parametrize(
    ("when", "least_s", "most_s"),
    [(b"3600", 3600, 3600), (AS_A_DATE, 3600, 7200), (b"soon", None, None), (IN_A_YEAR, 31536000, 31536000)],
)
@pytest.mark.parametrize("path", ["/account", "/orders"])
async def test_a_limit_says_until_when(
    tmp_path: Path, path: str, when: bytes, least_s: float | None, most_s: float | None
) -> None:
    if when == AS_A_DATE:
        when = formatdate(time.time() + 7200, usegmt=True).encode()
    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says[path] = [problem("rateLimited", 429, (b"retry-after", when))]
        error = await refusal(certificates)
        assert isinstance(error, Unavailable)
        assert error.code == "authority_rate_limited"
        assert "no, thanks" in error.message
        if least_s is None:
            assert error.retry_after_s is None
        else:
            assert error.retry_after_s is not None and most_s is not None
            assert least_s <= error.retry_after_s <= most_s


@pytest.mark.parametrize(
    ("when", "least_s", "most_s"), [(b"7200", 7200, 7200), (b"5", 60, 75), (IN_A_YEAR, 7 * 86400, 7 * 86400)]
)
async def test_a_limit_is_waited_for(tmp_path: Path, when: bytes, least_s: float, most_s: float) -> None:
    """But not for ever, and never less than after any other failure."""
    naps: list[float] = []

    class Enough(BaseException):
        pass

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise Enough

    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says["/orders"] = [problem("rateLimited", 429, (b"retry-after", when))]
        certificates._sleep = sleep
        with pytest.raises(Enough):
            await certificates.run()
    assert naps[0] == 0
    assert least_s <= naps[1] <= most_s


@pytest.mark.parametrize(
    ("path", "response", "kind", "code"),
    [
        ("/dir", Response(200, b"<html>"), Unavailable, "authority_failed"),
        ("/dir", Response(503, b"<html>"), Unavailable, "authority_failed"),
        ("/dir", Response(200, b"x" * (256 * 1024 + 1)), Unavailable, "authority_failed"),
        ("/nonce", Response(204), Unavailable, "authority_failed"),
        ("/account", problem("userActionRequired"), UserError, "account_refused"),
        ("/account", problem("invalidContact", 400), UserError, "account_refused"),
        ("/account", problem("unauthorized"), UserError, "account_refused"),
        (
            "/account",
            says(200, {"status": "deactivated"}, (b"location", b"/x")),
            UserError,
            "account_refused",
        ),
        ("/account", says(201, {"status": "valid"}), UserError, "account_refused"),
        ("/orders", problem("rejectedIdentifier", 400), UserError, "domain_refused"),
        ("/orders", problem("caa"), UserError, "domain_refused"),
        ("/orders", problem("accountDoesNotExist", 400), UserError, "account_refused"),
        ("/orders", problem("serverInternal", 500), Unavailable, "authority_failed"),
        ("/orders", says(201, {"status": "ready", "finalize": "x"}), Unavailable, "authority_failed"),
        ("/orders", says(201, ["?"]), Unavailable, "authority_failed"),
        ("/order", says(200, {"status": "invalid", "finalize": "x"}), Unavailable, "authority_failed"),
        ("/certificate", Response(200, b"nothing"), Unavailable, "authority_failed"),
    ],
)
async def test_refusals_are_told_apart(
    tmp_path: Path, path: str, response: Response, kind: type[MooringError], code: str
) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says[path] = [response]
        error = await refusal(certificates)
        assert error.code == code
        assert isinstance(error, kind)
        assert scripted.asked[-1] == path, "nothing more is asked"


async def test_a_wrong_certificate_is_not_taken(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        stranger = trustme.CA().issue_cert("relay.example.com")
        scripted.says["/certificate"] = [Response(200, stranger.cert_chain_pems[0].bytes())]
        error = await refusal(certificates)
        assert error.code == "authority_failed"
        assert "another" in error.message
    assert not (tmp_path / "c" / "certificate.pem").exists()


async def test_what_an_authority_says_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says["/orders"] = [
            problem("caa", detail="\x1b[2Jno\r\nwarning: \u202eall is well " + "x" * 999)
        ]
        error = await refusal(certificates)
        assert error.message.isprintable()
        assert len(error.message) < 500


async def test_a_challenge_that_we_cannot_show(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        offers = [
            {"type": "dns-01", "url": "x", "token": TOKEN},
            {"type": "http-01", "url": "x", "token": "../"},
        ]
        scripted.says["/authz"] = [says(200, {**scripted.pending, "challenges": offers})]
        assert (await refusal(certificates)).code == "challenge_not_offered"


@pytest.mark.parametrize(
    ("kind", "code", "hint"),
    [
        ("dns", "challenge_failed", "DNS record"),
        ("connection", "challenge_failed", "port 80"),
        ("caa", "domain_refused", "CAA record"),
    ],
)
async def test_why_a_challenge_failed(tmp_path: Path, kind: str, code: str, hint: str) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        [offer] = scripted.pending["challenges"]
        failed = {**offer, "status": "invalid", "error": {"type": ERROR + kind, "detail": "it was so"}}
        judged = {**scripted.pending, "status": "invalid", "challenges": [failed]}
        scripted.says["/authz"] = [says(200, scripted.pending), says(200, judged)]
        error = await refusal(certificates)
        assert error.code == code
        assert "it was so" in error.message
        assert hint in error.hint


async def test_a_challenge_that_fails_without_a_reason(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says["/authz"] = [
            says(200, scripted.pending),
            says(200, {**scripted.pending, "status": "deactivated"}),
        ]
        assert (await refusal(certificates)).code == "challenge_failed"


async def test_a_mistake_of_ours_does_not_end_renewal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    def stumble(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise RuntimeError("oh")

    async def sleep(seconds: float) -> None:
        if attempts == 2:
            raise asyncio.CancelledError

    async with ordering(tmp_path) as (_, certificates):
        certificates._sleep = sleep
        monkeypatch.setattr(keeper, "Ordering", stumble)
        with pytest.raises(asyncio.CancelledError):
            await certificates.run()
        assert certificates.status.last_error is not None
        assert certificates.status.last_error.code == "internal"
    assert "RuntimeError: oh" in caplog.text


async def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    async with ordering(tmp_path, disk_timeout_s=0.2) as (_, certificates):
        monkeypatch.setattr(Folder, "read", lambda *_: answers.wait(20) and None)
        assert (await refusal(certificates)).code == "certificates_unavailable"
        answers.set()
        await certificates.aclose()
    # It ends just after what it did is known.
    await until(lambda: not [thread for thread in threading.enumerate() if "folder" in thread.name])


async def test_a_challenge_that_never_ends(tmp_path: Path) -> None:
    async with ordering(tmp_path, validation_timeout_s=0.2) as (scripted, certificates):
        scripted.says["/authz"] = [says(200, scripted.pending)]
        error = await refusal(certificates)
        assert error.code == "authority_slow"
        assert scripted.asked.count("/challenge") == 1
        assert scripted.asked.count("/authz") > 2


async def test_an_order_that_never_ends(tmp_path: Path) -> None:
    async with ordering(tmp_path, issuing_timeout_s=0.2) as (scripted, certificates):
        scripted.says["/order"] = [says(200, {**scripted.order, "status": "processing"})]
        assert (await refusal(certificates)).code == "authority_slow"


async def test_all_of_it_has_a_bound(tmp_path: Path) -> None:
    async with ordering(tmp_path, order_timeout_s=0.2) as (scripted, certificates):
        scripted.says["/authz"] = [says(200, scripted.pending, (b"retry-after", b"1"))]
        error = await refusal(certificates)
        assert error.code == "authority_slow"
        assert "0.2 s" in error.message


async def test_a_nonce_that_is_refused_is_not_used_again(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        bad = problem("badNonce", 400)
        scripted.says["/orders"] = [bad, bad, *scripted.says["/orders"]]
        assert (await refusal(certificates)).code == "authority_failed"  # it has no certificate
        assert scripted.asked.count("/orders") == 3
        assert scripted.asked[-1] == "/certificate"


async def test_nonces_that_are_always_refused(tmp_path: Path) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        scripted.says["/orders"] = [problem("badNonce", 400)]
        error = await refusal(certificates)
        assert error.code == "authority_failed"
        assert scripted.asked.count("/orders") == 10


@pytest.mark.parametrize("elsewhere", ["http://localhost/nonce", "gopher://x/", "https://ä/", "https://a:b/"])
async def test_addresses_that_are_none(tmp_path: Path, elsewhere: str) -> None:
    async with ordering(tmp_path) as (scripted, certificates):
        known = json.loads(scripted.says["/dir"][0].body)
        scripted.says["/dir"] = [directory(**known | {"newNonce": elsewhere})]
        assert (await refusal(certificates)).code == "authority_failed"
        assert scripted.asked == ["/dir"]


async def test_an_authority_at_too_many_places(tmp_path: Path) -> None:
    async with ordering(tmp_path, max_hosts=1) as (scripted, certificates):
        known = json.loads(scripted.says["/dir"][0].body)
        scripted.says["/dir"] = [directory(**known | {"newNonce": "https://other.example/nonce"})]
        assert (await refusal(certificates)).code == "authority_failed"
        assert scripted.asked == ["/dir"]
