"""Times as people write them."""

import pytest

from toolcrib.approval.duration import duration_text, read_duration
from toolcrib.errors import InvalidPolicy


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(90, 90), (0.5, 0.5), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("7d", 604_800)],
)
def test_a_time_is_a_number_of_seconds_or_has_a_unit(written: object, seconds: float) -> None:
    """Numbers are seconds; texts carry their unit."""
    assert read_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [0, -1, "0s", "5", "m", "5 m", "1h30m", "-1h", "5M", "1e3s", "9" * 400 + "d", True, None, []],
)
def test_anything_else_is_refused(written: object) -> None:
    """A deadline that was misread would wait for ever, or not at all."""
    with pytest.raises(InvalidPolicy, match="30s, 5m, 1h, 7d"):
        read_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(30, "30s"), (60, "1m"), (90, "90s"), (7200, "2h"), (86_400, "1d"), (0.2, "1s"), (0, "0s")],
)
def test_a_time_is_shown_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    """People read 2h, not 7200 seconds."""
    assert duration_text(seconds) == text
