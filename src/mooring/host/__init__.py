"""Long-running commands: what they wire together and how they end.

Owns signals, the shutdown contract and its exit statuses, probes and metrics pages.
`foreground` hosts one workload; the daemon will host many.

Does not know words on a terminal.
"""
