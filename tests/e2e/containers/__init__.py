"""Servers in containers as a user has them: real engines, the real command line, a daemon, clients."""
