"""Words on a terminal.

Owns argv, help, output and exit statuses. Imports what is heavy only inside the command
that needs it: `mooring --help` must feel instant.

Does not know how anything is done: its doors are the `run(options, stop)` of each
long-running command.
"""
