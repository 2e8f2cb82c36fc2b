"""A handler that needs nothing."""


def echo(input: dict[str, object], context: object) -> dict[str, object]:
    return input
