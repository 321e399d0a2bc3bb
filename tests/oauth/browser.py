"""A browser that does what a person would: follows redirects, keeps cookies, and submits forms."""

import re
from html import unescape
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from mooring.http.client import Client
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import parse_url
from mooring.wire.http import Headers
from tests.support import within

FORM = re.compile(r'<form[^>]* action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
INPUT = re.compile(r"<input([^>]*)>")
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
ABORT = re.compile(r'href="([^"]*/abort)"')


class Page(NamedTuple):
    url: str
    status: int
    headers: dict[str, str]
    text: str


class Browser:
    """`trail` is every address that it was at."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], str] = {}
        self.trail: list[str] = []

    async def log_in(self, address: str, *, stop_before: str = "") -> Page:
        """Through the forms of oidc-provider's development pages, to wherever they lead in the end."""
        page = await self.open(address, stop_before=stop_before)
        while form := FORM.search(page.text):
            action, inside = form.groups()
            inputs = [dict(ATTRIBUTE.findall(found)) for found in INPUT.findall(inside)]
            fields = {field["name"]: field.get("value") or "somebody" for field in inputs if "name" in field}
            target = urljoin(page.url, unescape(action))
            page = await self.open(target, urlencode(fields).encode(), stop_before=stop_before)
        return page

    async def decline(self, address: str) -> Page:
        page = await self.open(address)
        found = ABORT.search(page.text)
        assert found, page.text
        return await self.open(urljoin(page.url, unescape(found[1])))

    async def open(self, url: str, form: bytes | None = None, *, stop_before: str = "") -> Page:
        for _ in range(20):
            if stop_before and url.startswith(stop_before):
                return Page(url, 0, {}, "")
            page = await self._ask(url, form)
            if page.status not in (302, 303):
                return page
            url, form = urljoin(url, page.headers["location"]), None
        raise AssertionError(f"round in circles: {self.trail}")

    async def _ask(self, url: str, form: bytes | None) -> Page:
        self.trail.append(url)
        origin, target = parse_url(url)
        client = Client(origin, ClientLimits(max_redirects=0))
        path = urlsplit(url).path
        mine = [
            f"{name}={value}"
            for (host, at, name), value in self._cookies.items()
            if host == origin.authority and path.startswith(at)
        ]
        headers: Headers = [(b"Accept", b"text/html")]
        if mine:
            headers.append((b"Cookie", "; ".join(mine).encode()))
        if form is not None:
            headers.append((b"Content-Type", b"application/x-www-form-urlencoded"))
        try:
            async with within():
                response = await client.request(
                    "GET" if form is None else "POST", target, headers, form or b""
                )
                body = await response.read(1 << 20)
        finally:
            await client.aclose()
        for name, value in response.headers:
            if name == b"set-cookie":
                self._keep(origin.authority, value.decode())
        fields = {name.decode(): value.decode() for name, value in response.headers}
        return Page(url, response.status, fields, body.decode())

    def _keep(self, host: str, cookie: str) -> None:
        pair, *attributes = [part.strip() for part in cookie.split(";")]
        name, _, value = pair.partition("=")
        given = dict(part.lower().partition("=")[::2] for part in attributes)
        place = next((part[5:] for part in attributes if part.lower().startswith("path=")), "/")
        if "1970" in given.get("expires", ""):
            self._cookies.pop((host, place, name), None)
        else:
            self._cookies[host, place, name] = value


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
