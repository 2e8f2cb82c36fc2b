"""Limits of a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.adapters.options import Budget, Usage
from toolcrib.errors import PromptEvaluationError, UsageError


@pytest.mark.parametrize("name", ["max_steps", "max_tokens", "max_calls", "seconds"])
@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_limit_that_allows_nothing_is_refused(name: str, limit: Any) -> None:
    """Zero is no way to say "no limit": that is None."""
    with pytest.raises(UsageError, match=f"{name} must be more than 0"):
        Budget(**{name: limit})


def test_no_limit_is_no_limit() -> None:
    """None never ends a prompt."""
    free = Budget(max_steps=None)

    free.check("p", steps=10**9, usage=Usage(input_tokens=10**12))
    free.check_calls("p", 10**9)


def test_steps_are_limited_unless_told_otherwise() -> None:
    """A model that calls for ever does not run up a bill for ever."""
    with pytest.raises(PromptEvaluationError, match="50 steps and may take 50") as caught:
        Budget().check("p", steps=50, usage=Usage())

    assert (caught.value.phase, caught.value.prompt_name) == ("budget", "p")


def test_tokens_are_summed() -> None:
    """E7: usage over all steps is one sum."""
    total = Usage(1, 10, 5, 2, 1) + Usage(1, 20, 5, 0, 3)

    assert total == Usage(2, 30, 10, 2, 4)
    assert total.total_tokens == 40
