"""`python -m tests.fuzz TARGET [libFuzzer's options and folders]`: see the package."""

import importlib
import sys
from pathlib import Path

import atheris


def main() -> None:
    _, target, *options = sys.argv
    with atheris.instrument_imports(include=["mooring"]):
        module = importlib.import_module(f"tests.fuzz.{target}")
    words = f"-dict={Path(__file__).with_name(target)}.dict"
    # libFuzzer starts itself again to merge folders, by this name.
    atheris.Setup([f"{sys.executable} -m tests.fuzz {target}", words, *options], module.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
