"""`mooring run`: from what was given to a server that runs."""
