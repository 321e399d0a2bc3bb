"""One entry in or out of a document, everything else as it was. Pure: bytes in, bytes out.

`edits` is what all formats have in common, above all the check that nothing else changed; each format has a
module of its own. `json_family` is JSON, JSONC and JSON5, read by `json_scan` and changed by `json_splice`.
"""
