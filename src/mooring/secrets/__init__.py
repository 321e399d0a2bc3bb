"""Values that are named where they are needed and kept elsewhere.

`references` is the grammar, `resolving` leads from a reference to its value, `vault` and `system_keyring`
are where `mooring secret` keeps values, `masking` keeps them out of logs. Nothing here knows who needs them.
"""
