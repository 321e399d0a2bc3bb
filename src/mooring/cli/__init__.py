"""Words on a terminal.

Each command has its options in `command.py` or `commands.py` of the folder it belongs to, and beside it what
it does; small ones are a module of their own name. `terminal` has how things look.

Owns argv, help, output and exit statuses. Imports what is heavy only inside the command
that needs it: `mooring --help` must feel instant.

Does not know how anything is done: its doors are the `run(options, stop)` of each
long-running command.
"""
