"""Trying a server from the terminal: `mooring tools`, `resources`, `prompts` and `call`.

Pure: `schemas`, `arguments`, `questions`, `contents`, `pages` make values and lines of text. The shell
around them: `paper` (stdout), `sideline` (stderr, and the person at the terminal), `saving` (files),
`errands` (what is asked of a server), `commands` (argv).

What a server says reaches a terminal only through `words.printable`.
"""
