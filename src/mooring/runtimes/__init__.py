"""Making a program exist, and making it end.

Owns child processes: their environment, pipes, output, exit, the Stop sequence, and the
guardian that ends them should this process be killed.

Does not know restart policy, MCP, or who reads what the program writes.
"""
