"""`mooring client`."""
