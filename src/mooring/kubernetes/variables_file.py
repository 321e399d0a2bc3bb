"""Variables as the text of a file for `mooring run --env-file`. Pure.

In a file and not in the environment of the container: they are the server's, and not Mooring's own (PATH,
PYTHONPATH, MOORING_PORT); and Kubernetes would put its own variables into `$(NAME)` there.
"""

from collections.abc import Mapping

__all__ = ["HEAD", "variables_text"]

HEAD = "# Variables of the server: one NAME=VALUE a line.\n"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "$": "\\$"})


def variables_text(variables: Mapping[str, str]) -> str:
    """What `--env-file` reads as these variables."""
    return HEAD + "".join(
        f'{name}="{value.translate(_ESCAPES)}"\n' for name, value in sorted(variables.items())
    )
