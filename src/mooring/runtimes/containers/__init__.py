"""Making a program exist in a container, and making it end: on Docker, and on Podman.

Owns finding an engine and talking to it, containers with their stdin and output, their exits, what becomes of
them by others' hands, and removing them, and only ours.

Does not know restart policy, MCP, or who reads what the program writes. Nothing here but values, and what
leads to the rest (`harbours`), is imported unless a server is to run in a container.
"""
