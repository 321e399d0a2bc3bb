"""The members of `params` that a message is routed by."""

import pytest
from msgspec import Raw

from mooring.wire.params import (
    cancelled_id,
    client_name,
    modern_version,
    progress_of_call,
    progress_of_note,
    unambiguous,
)

UNREADABLE = [
    b"",
    b"x",
    b"null",
    b"[]",
    b"5",
    b'{"_meta":',
    b'{"a":"\xff","_meta":{"progressToken":"\xff"},"progressToken":"\xff","requestId":"\xff"}',
    b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"{}",
]


@pytest.mark.parametrize(
    ("params", "token"),
    [
        (b'{"_meta":{"progressToken":1}}', 1),
        (b'{"_meta":{"progressToken":"1"}}', "1"),
        (b'{"_meta":{"progressToken":0}}', 0),
        (b'{"_meta":{"progressToken":""}}', ""),
        (b'{"_meta":{"progressToken":12345678901234567890123}}', 12345678901234567890123),
        (b'{"arguments":{"_meta":{"progressToken":6}},"_meta":{"x":1,"progressToken":7}}', 7),
        (rb'{"a":"\ud800","_meta":{"progressToken":"\u0061"}}', "a"),
        (b'{"progressToken":1}', None),
        (b'{"arguments":{"_meta":{"progressToken":6}}}', None),
        (b'{"_meta":null}', None),
        (b'{"_meta":{}}', None),
        (b'{"_meta":{"progressToken":null}}', None),
        (b'{"_meta":{"progressToken":true}}', None),
        (b'{"_meta":{"progressToken":[1]}}', None),
        (b'{"_meta":{"progressToken":' + b"1" * 5000 + b"}}", None),
        *((params, None) for params in UNREADABLE),
    ],
)
def test_the_token_of_a_call(params: bytes, token: object) -> None:
    for given in (params, Raw(params)):
        found = progress_of_call(given)
        assert (found, type(found)) == (token, type(token))


@pytest.mark.parametrize(
    ("params", "token"),
    [
        (b'{"progressToken":1,"progress":0.5}', 1),
        (b'{"progressToken":"1","progress":1e999}', "1"),
        (rb'{"progressToken":2,"message":"cut \ud83d"}', 2),
        (b'{"_meta":{"progressToken":1}}', None),
        (b'{"progressToken":false}', None),
        *((params, None) for params in UNREADABLE),
    ],
)
def test_the_token_of_a_note(params: bytes, token: object) -> None:
    found = progress_of_note(params)
    assert (found, type(found)) == (token, type(token))


@pytest.mark.parametrize(
    ("params", "id"),
    [
        (b'{"requestId":1}', 1),
        (b'{"requestId":"1","reason":"x"}', "1"),
        (b'{"requestId":1.0}', 1.0),
        (rb'{"requestId":3,"reason":"\udfff"}', 3),
        (b'{"requestId":null}', None),
        (b'{"requestId":{}}', None),
        *((params, None) for params in UNREADABLE),
    ],
)
def test_the_request_that_is_cancelled(params: bytes, id: object) -> None:
    found = cancelled_id(params)
    assert (found, type(found)) == (id, type(id))


@pytest.mark.parametrize(
    ("params", "name"),
    [
        (b'{"clientInfo":{"name":"Claude","version":"1.2"}}', "Claude 1.2"),
        (b'{"clientInfo":{"name":"Claude"}}', "Claude"),
        (b'{"clientInfo":{"version":"1.2"}}', "1.2"),
        (b'{"clientInfo":{}}', ""),
        (rb'{"clientInfo":{"name":"a\n\u001b[31mb\u0000","version":"1\r\n2"}}', "a[31mb 12"),
        ('{"clientInfo":{"name":"Ké 😀\u2028x"}}'.encode(), "Ké 😀x"),
        (b'{"clientInfo":{"name":"' + b"x" * 200 + b'"}}', "x" * 80),
        (b'{"clientInfo":{"name":5}}', ""),
        (b'{"clientInfo":null}', ""),
        *((params, "") for params in UNREADABLE),
    ],
)
def test_the_name_of_a_client_fits_one_log_line(params: bytes, name: str) -> None:
    assert client_name(params) == name


def test_half_a_character_costs_a_client_only_that_character() -> None:
    params = rb'{"clientInfo":{"name":"a\ud83db","version":"1"},"capabilities":{"x":"\udead"}}'
    assert client_name(params) == "ab 1"


VERSION_KEY = b'"io.modelcontextprotocol/protocolVersion"'


@pytest.mark.parametrize(
    "key", [VERSION_KEY, VERSION_KEY.replace(b"/", b"\\/"), VERSION_KEY.replace(b"o", b"\\u006f")]
)
def test_the_revision_that_a_message_states_by_itself(key: bytes) -> None:
    assert modern_version(b'{"_meta":{%b:"2026-07-28"},"x":1}' % key) == "2026-07-28"
    assert modern_version(b'{"_meta":{%b:"2027-01-01"},"name":7}' % key) == "2027-01-01"
    assert modern_version(b'{"_meta":{%b:"2025-11-25"}}' % key) is None, "of the era with handshakes"
    assert modern_version(b'{%b:"2026-07-28"}' % key) is None
    for params in (
        b"",
        b"{}",
        b'{"_meta":null}',
        b"[]",
        b'{"_meta":{%b:7}}' % key,
        b"[%b]" % key,
        b'{"x":%b}' % key,
    ):
        assert modern_version(params) is None


@pytest.mark.parametrize(
    ("params", "rest"),
    [
        (b'{ "a" : "\\n" , "_meta" : {"x":1} }', b'{ "a" : "\\n" , "_meta" : {"x":1} }'),
        (
            b'{"_meta":{"progressToken":5,"x": 1,"progressToken":null}}',
            b'{"_meta":{"progressToken":null,"x":1}}',
        ),
        (rb'{"_meta":{"progress\u0054oken":5,"progressToken":null}}', b'{"_meta":{"progressToken":null}}'),
        (rb'{"\u005fmeta":{"progressToken":5},"a":[1 ],"_meta":{"x":1}}', b'{"_meta":{"x":1},"a":[1 ]}'),
        (b'{"name":"a","arguments":{"x":[1 ]},"name":"b"}', b'{"name":"b","arguments":{"x":[1 ]}}'),
        (b'{"name":"a","arguments":{"name": "b"}}', b'{"name":"a","arguments":{"name": "b"}}'),
        (b'{"_meta":{"i/logLevel":"debug"},"_meta":{}}', b'{"_meta":{}}'),
    ],
)
def test_whichever_of_two_members_is_read_it_says_the_same(params: bytes, rest: bytes) -> None:
    assert unambiguous(params) == rest
