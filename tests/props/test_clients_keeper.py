"""Whatever happens to a server and to the daemon, in whatever order: in the end its entry is there, once."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clients.following import EXITED, LOST, News, ServerNow
from tests.unit.test_clients_keeper import BEFORE, CLAUDE, CURSOR, Place

HAPPENINGS = st.lists(
    st.sampled_from(
        ["lost", "exited", "failed", "ready", "starting", "stopped", "killed", "spoilt", "mended", "moved"]
    )
    | st.sampled_from([0.1, 1.0, 5.0, 60.0, 4000.0]),
    max_size=25,
)


class World:
    """A daemon whose lives end, and a user who spoils files."""

    def __init__(self, folder: Path, refresh: str) -> None:
        self.place = Place(folder)
        self.journal: list[News] = []
        self.server = ServerNow(1, "ready", refresh=refresh)  # type: ignore[arg-type]
        self.spoilt: bytes | None = None

    def happen(self, what: str | float) -> None:
        place, path = self.place, self.place.home / CURSOR
        if isinstance(what, float):
            place.now += what
        elif what in ("lost", "exited"):
            self.journal.append(place.event(LOST if what == "lost" else EXITED))
        elif what == "killed":
            place.live()
        elif what == "spoilt" and self.spoilt is None:
            self.spoilt = path.read_bytes()
            path.write_bytes(b"{")
        elif what == "mended" and self.spoilt is not None:
            path.write_bytes(self.spoilt)
            self.spoilt = None
        elif what == "moved":
            place.port += 1
            place.live()
        elif what in ("failed", "ready", "starting", "stopped"):
            state = "other" if what == "starting" else what
            self.server = self.server._replace(state=state)  # type: ignore[arg-type]
            self.journal.append(place.event(what))
        place.servers["time"] = self.server
        after = place.keeper.after
        place.turn(*(event for event in self.journal if event.number > after))


@settings(max_examples=40, deadline=None)
@given(HAPPENINGS, st.sampled_from(["auto", "always", "never"]))
def test_in_the_end_the_entry_is_there_once(happenings: list[str | float], refresh: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), refresh)
        for what in (*happenings, "mended", "ready", 60.0, 4000.0, 60.0, 60.0):
            world.happen(what)
        place = world.place
        assert place.where() == [CURSOR, CLAUDE]
        if refresh != "never":
            urls = {place.entry(name)["url"] for name in (CURSOR, CLAUDE)}
            assert urls == {f"http://127.0.0.1:{place.port}/time/mcp"}
        assert place.turn() == [] and place.keeper.due is None
        place.servers.clear()
        place.turn(place.event("removed"))
        place.turn()
        assert [(place.home / name).read_bytes() for name in (CURSOR, CLAUDE)] == [BEFORE] * 2
