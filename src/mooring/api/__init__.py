"""The REST API of the daemon: its types, its routes, and the client that the CLI uses."""
