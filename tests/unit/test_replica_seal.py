"""How replicas know each other: a seal that only they can make, for one principal and not for long."""

import pytest

from mooring.http.guard import Guard
from mooring.replicas.seal import HEADER, SPAN_S, Seal, Voucher
from mooring.wire.http import Head, Request


class Wall:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def request(*fields: tuple[bytes, bytes]) -> Request:
    return Request(Head("POST", "/mcp", headers=fields))


def test_another_replica_is_believed() -> None:
    wall = Wall()
    ours, theirs = Seal(b"key", wall), Seal(b"key", wall)
    asked = request(ours.header("host-1", "jürgen the 2nd"))
    assert theirs.read(asked) == Voucher("host-1", "jürgen the 2nd")
    assert theirs.read(asked) == Voucher("host-1", "jürgen the 2nd")  # from what was noted on its head


def test_nobody_vouches_for_what_has_no_seal() -> None:
    assert Seal(b"key", Wall()).read(request()) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"host-1 33333 local",
        b"host-1 33333 local " + b"0" * 64,
        b"\xff " * 4,
        b"a b c d e f",
        b"x" * 5000,
    ],
)
def test_what_is_no_seal_is_not_believed(value: bytes) -> None:
    assert Seal(b"key", Wall()).read(request((HEADER, value))) is None


def test_another_key_is_not_believed() -> None:
    wall = Wall()
    assert Seal(b"other", wall).read(request(Seal(b"key", wall).header("host-1", "local"))) is None


def test_another_principal_needs_another_seal() -> None:
    wall = Wall()
    seal = Seal(b"key", wall)
    name, value = seal.header("host-1", "alice")
    assert seal.read(request((name, value.replace(b"alice", b"mallo")))) is None


def test_it_is_good_for_a_while_only() -> None:
    wall = Wall()
    seal = Seal(b"key", wall)
    asked = request(seal.header("host-1", "local"))
    wall.now += SPAN_S
    assert seal.read(asked) is not None
    wall.now += SPAN_S
    assert seal.read(asked) is None  # also where its head is known already


def test_nobody_is_let_in_by_one_that_has_run_out_although_its_head_is_known() -> None:
    wall = Wall()
    seal = Seal(b"key", wall)
    guard = Guard(tokens={"alice": "a" * 24})
    guard.vouched = lambda request: voucher.principal if (voucher := seal.read(request)) else None
    head = Head("POST", "/mcp", headers=[(b"host", b"localhost"), seal.header("host-1", "alice")])
    assert guard.judge(Request(head)).principal == "alice"
    wall.now += 2 * SPAN_S
    refused = guard.judge(Request(head)).answer
    assert refused is not None
    assert refused.status == 401


def test_another_key_can_be_used_from_now_on() -> None:
    wall = Wall()
    ours, theirs = Seal(b"lost", wall), Seal(b"key", wall)
    before = request(ours.header("host-1", "local"))
    assert ours.read(before) is not None
    ours.use(b"key")
    assert ours.read(before) is None  # also where its head is known already
    assert ours.read(request(theirs.header("host-2", "local"))) == Voucher("host-2", "local")
    assert theirs.read(request(ours.header("host-1", "local"))) == Voucher("host-1", "local")


def test_it_is_the_same_for_a_while_so_that_its_head_is_read_once() -> None:
    wall = Wall()
    seal = Seal(b"key", wall)
    first = seal.header("host-1", "local")
    assert seal.header("host-1", "local") is not None
    assert seal.header("host-1", "local") == first
    wall.now += SPAN_S
    assert seal.header("host-1", "local") != first
