"""How the numbers are printed: one table per section, then every promise with its verdict."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from harness import Bound, Measured, Spread, Variant

PACKAGES = (
    "pydantic",
    "pydantic-core",
    "openai",
    "pydantic-ai-slim",
    "openai-agents",
    "langchain-core",
    "langchain-openai",
    "langgraph",
    "fastmcp",
    "mcp",
    "asyncpg",
    "dbos",
    "temporalio",
)


def versions() -> str:
    """The peers as they are installed here, in one line."""
    return ", ".join(f"{name} {_version(name)}" for name in PACKAGES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, columns aligned; the first column to the left, the rest right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    print(f"\n{title}\n")
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells))


def quarters(spread: Spread, digits: int = 1) -> str:
    """The middle half, as a range."""
    return f"{spread.low:.{digits}f}-{spread.high:.{digits}f}"


def dispatch_table(title: str, variants: Sequence[Variant], measured: Measured, floor: str) -> None:
    """The cost of each variant, the cheapest first."""
    rows: list[list[str]] = []
    for variant in sorted(variants, key=lambda each: measured.cost(each.name).median):
        cost, ratio = measured.cost(variant.name), measured.ratio(variant.name, floor)
        governed = "yes" if variant.governed else "no"
        rows.append(
            [
                variant.name,
                f"{cost.median:.1f}",
                quarters(cost),
                f"{ratio.median:.2f}",
                quarters(ratio, 2),
                governed,
            ]
        )
    table(title, ["path", "CPU us/call", "IQR", "x floor", "IQR", "governed"], rows)


def verdict(bounds: Sequence[Bound]) -> bool:
    """Print every promise with PASS or FAIL; true when all are kept."""
    print()
    for bound in bounds:
        print(f"{'PASS' if bound.kept else 'FAIL'}  {bound.promise}: {bound.measured}")
    return all(bound.kept for bound in bounds)
