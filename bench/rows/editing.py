"""How long it takes to put an entry into the settings of an editor and to take it out again.

The file is one as people have them who set everything: 69 KiB with comments and trailing commas, of Zed. Both
edits read the whole of it, and read again what came of it.
"""

import time

from bench.measuring import Figures, Unable
from bench.results import MOORING
from bench.rows.fresh import from_scratch
from mooring.clients.entries import Target, entry_for
from mooring.clients.table import load_table

__all__ = ["GROUPS", "SETTINGS_BYTES", "edited_s", "settings"]

SETTINGS_BYTES = 69 * 1024
RUNS = 5

HEAD = """\
// Zed settings
//
// To see all of Zed's default settings without changing your own, run
// `zed: open default settings` from the command palette.
{
  "theme": { "mode": "system", "light": "One Light", "dark": "One Dark" },
  "context_servers": {
    // started by hand
    "postgres": {
      "command": "/home/ada/bin/pg-mcp",
      "args": ["--read-only"],
      "env": { "PGHOST": "localhost" },
    },
  },
  "languages": {
"""
LANGUAGE = """\
    // Number {n}: as the others here have it.
    "Language {n}": {{
      "tab_size": {width}, // columns
      "hard_tabs": false,
      "formatter": {{
        "external": {{ "command": "fmt-{n}", "arguments": ["--stdin", "--width=100", "{{buffer_path}}"] }},
      }},
      "language_servers": ["server-{n}", "!other-{n}", "..."],
      /* said in the "review" of {n} */
      "inlay_hints": {{ "enabled": true, "edit_debounce_ms": 700, "scroll_debounce_ms": 50.5 }},
    }},
"""
TAIL = """\
  },
}
"""


def settings() -> bytes:
    """The file: as many languages as fit."""
    parts: list[str] = []
    room = SETTINGS_BYTES - len(HEAD) - len(TAIL)
    while len(part := LANGUAGE.format(n=len(parts), width=2 + 2 * (len(parts) % 2))) <= room:
        parts.append(part)
        room -= len(part)
    return (HEAD + "".join(parts) + " " * room + TAIL).encode()


def edited_s(data: bytes) -> float:
    """An entry put in and taken out again; what is left must be what there was."""
    zed = load_table()["zed"]
    target = Target("time", "http://127.0.0.1:4670/time/mcp", ("/usr/bin/mooring", "stdio", "time"))
    entry = entry_for(zed, target)
    began = time.perf_counter()
    with_entry = zed.editor.put(data, zed.section, target.name, entry)
    without = zed.editor.remove(with_entry, zed.section, target.name)
    took_s = time.perf_counter() - began
    if without != data or with_entry == data:
        raise Unable("the file is not what it was")
    return took_s


def _editing(_: str) -> Figures:
    data = settings()
    return Figures({"edit_69k": min(edited_s(data) for _ in range(RUNS)) * 1000})


GROUPS = (from_scratch(("edit_69k",), _editing, windows=2, quick_windows=1, targets=(MOORING,)),)
