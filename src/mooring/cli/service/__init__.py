"""`mooring service`."""
