"""What a script is called with."""

import argparse


def parser(about: str | None) -> argparse.ArgumentParser:
    """A parser whose `--help` shows the script's docstring; what it does not know is refused."""
    return argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
