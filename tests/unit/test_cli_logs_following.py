"""`mooring logs -f` while the file is put aside and begun anew."""

import os
from pathlib import Path

import pytest

from mooring.cli.servers import logs


def test_what_is_added_right_before_a_file_is_put_aside_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.log"
    path.write_text("first\n")

    look = Path.stat

    def rotate_first(self: Path) -> os.stat_result:
        """After the follower has read all, and before it looks whether the file is still the same."""
        monkeypatch.setattr(Path, "stat", look)
        with path.open("a") as file:
            file.write("last of the old\n")
        path.rename(tmp_path / "one.log.1")
        path.write_text("first of the new\n")
        return look(self)

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "stat", rotate_first)
    monkeypatch.setattr("time.sleep", stop)
    shown: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        for lines in logs._lines_of(path, follow=True):
            shown += lines
    assert shown == ["first", "last of the old", "first of the new"]


def test_a_file_that_is_gone_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("x\n")
    with path.open() as file:
        assert logs._begun_anew(path, file) is None
        path.unlink()
        assert logs._begun_anew(path, file) is None
