"""`mooring uninstall`."""
