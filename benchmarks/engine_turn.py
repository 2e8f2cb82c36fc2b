"""The turn that every engine runs: a model that calls a tool five times, one after the other."""

CALLS = 5
ANSWER = "done"
AT_ONCE = 32
"""How many turns run at the same time."""


def model(step: int) -> int | str:
    """What the model says in a step: the argument of a call, and in the end the answer."""
    return step if step < CALLS else ANSWER


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
