"""Any sequence of commands, crashes and deaths of the daemon, against a model of what should be true then.

daemon.py           a daemon in a process of its own, and what the system says of its servers
client.py           one MCP client that keeps the id of its session, whatever happens
machine.py          the model: what was asked for, and what must be the case after every step
test_lifecycle.py   a few sequences each time, many in the long run
"""
