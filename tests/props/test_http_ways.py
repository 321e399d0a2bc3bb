"""Whatever an environment or a server says of proxies and addresses: an answer, or an error in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import UserError
from mooring.http.client_proxies import Proxies
from mooring.http.client_redirects import redirected
from mooring.http.origin import Origin

# As os.environ gives it: bytes that are no UTF-8 are there as lone surrogates.
TEXT = st.text(st.characters() | st.sampled_from(":/@[]%.*,0123456789"), max_size=60)
PIECES = (
    "http://",
    "https://",
    "//",
    "example.com",
    ":8080",
    ":80",
    "/x",
    "..",
    "?a",
    "#b",
    "@",
    "[",
    "\\",
    "\t",
)
ADDRESSES = st.lists(st.sampled_from(PIECES) | TEXT, max_size=6).map("".join)


@given(url=ADDRESSES, exceptions=TEXT, host=st.sampled_from(["example.com", "10.0.0.1", "fd00::1"]) | TEXT)
def test_proxies_are_found_or_the_variable_is_named(url: str, exceptions: str, host: str) -> None:
    proxies = Proxies.from_environment({"HTTPS_PROXY": url, "NO_PROXY": exceptions})
    try:
        proxy = proxies.find("https", host, 443)
    except UserError as error:
        assert "HTTPS_PROXY" in error.message
    else:
        assert proxy is None or (proxy.host and proxy.scheme in ("http", "https") and "@" not in str(proxy))


@given(location=ADDRESSES.filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)))
def test_no_redirect_leads_to_another_server_or_breaks_a_request(location: str) -> None:
    origin = Origin(host="example.com", port=8080)
    target = redirected(origin, "/mcp", "POST", 307, location.encode())
    if target is None:
        return
    assert target.startswith("/") and target.isascii() and not any(c in target for c in " \r\n\t")


def test_a_port_with_thousands_of_digits_is_none() -> None:
    proxies = Proxies.from_environment({"HTTPS_PROXY": "p", "NO_PROXY": "example.com:" + "9" * 5000})
    assert proxies.find("https", "example.com", 443) is not None
    with pytest.raises(UserError):
        Proxies.from_environment({"HTTPS_PROXY": "p:" + "9" * 5000}).find("https", "example.com", 443)
