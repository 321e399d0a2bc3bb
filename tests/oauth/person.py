"""Somebody who logs in when asked to."""

import asyncio
from pathlib import Path
from typing import Any

from mooring.oauth.login import LoggedIn, login
from tests.oauth.browser import Browser, Page
from tests.support import within


class Person:
    """Opens what is shown in a browser; `visit` may be replaced by something less obedient."""

    def __init__(self) -> None:
        self.browser = Browser()
        self.shown: list[str] = []
        self.pages: list[Page] = []
        self._opening: list[asyncio.Task[None]] = []

    def show(self, address: str) -> None:
        self.shown.append(address)
        self._opening.append(asyncio.create_task(self._open(address)))

    async def _open(self, address: str) -> None:
        self.pages.append(await self.visit(address))

    async def visit(self, address: str) -> Page:
        return await self.browser.log_in(address)

    async def done(self) -> None:
        await asyncio.gather(*self._opening)


async def log_in(url: str, state: Path, person: Person | None = None, **options: Any) -> LoggedIn:
    person = person or Person()
    try:
        async with within(60):
            return await login(url, state, show=person.show, **options)
    finally:
        await person.done()
