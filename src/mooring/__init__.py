"""Mooring runs MCP servers and keeps them reachable: an MCP session survives."""

__version__ = "0.1.0"
