"""The version is written once."""

from importlib.metadata import version

import toolcrib


def test_the_package_and_its_metadata_agree() -> None:
    """What `pip` shows is what the package says of itself."""
    assert toolcrib.__version__ == version("toolcrib")
