"""What a call may cost: limits are checked when they are set."""

import math
from typing import Any

import pytest

from toolcrib import Limits
from toolcrib.errors import UsageError


def test_the_defaults_bind_what_could_do_harm() -> None:
    """Without a word from the host, size, depth and threads are bounded, and time is not."""
    limits = Limits()

    assert limits.timeout is None
    assert limits.max_parallel is None
    assert (limits.max_threads, limits.max_depth) == (64, 8)
    assert (limits.max_arguments_bytes, limits.max_result_chars) == (1_000_000, 50_000)


@pytest.mark.parametrize("timeout", [0, 0.0, -1, math.inf, -math.inf, math.nan])
def test_a_timeout_is_a_finite_time(timeout: float) -> None:
    """R18: 0 is invalid rather than "no limit", and so is whatever is no time."""
    with pytest.raises(UsageError, match="for no limit pass None"):
        Limits(timeout=timeout)


@pytest.mark.parametrize(
    "name",
    ["max_parallel", "max_threads", "max_depth", "max_arguments_bytes", "max_result_chars"],
)
@pytest.mark.parametrize("value", [0, -1])
def test_a_cap_lets_something_through(name: str, value: int) -> None:
    """A cap that lets nothing through is a mistake, and is named."""
    wrong: dict[str, Any] = {name: value}

    with pytest.raises(UsageError, match=f"{name} must be 1 or more, not {value}"):
        Limits(**wrong)


@pytest.mark.parametrize(
    "name",
    ["max_parallel", "max_threads", "max_depth", "max_arguments_bytes", "max_result_chars"],
)
def test_one_is_enough(name: str) -> None:
    """The smallest cap is one."""
    smallest: dict[str, Any] = {name: 1}

    assert getattr(Limits(**smallest), name) == 1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_question_has_an_end(seconds: float) -> None:
    """A question that never expires would keep its call for ever."""
    with pytest.raises(UsageError, match="question_seconds must be a finite number"):
        Limits(question_seconds=seconds)
