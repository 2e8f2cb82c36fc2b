"""What the package promises by name."""

import pytest

import toolcrib.host_tools as package


def test_the_package_has_what_it_promises() -> None:
    """R7: every public name can be imported, and no other."""
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'HostToolRegister'"):
        getattr(package, "HostToolRegister")  # noqa: B009
