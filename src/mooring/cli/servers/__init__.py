"""The commands about servers that the daemon has, and about the daemon itself."""
