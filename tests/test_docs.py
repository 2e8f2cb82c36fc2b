"""Every Python block in README.md and docs/ runs, as a reader would run it."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tests.docs_runner import Block, blocks_under, read_all_blocks, read_blocks, run_blocks
from tests.helpers.patience import PATIENCE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOW_TO_RUN = "(index.md#how-to-run-the-code-of-these-pages)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who pastes a page's blocks in order sees no error."""
    monkeypatch.chdir(tmp_path)

    run_blocks(read_blocks(page))


@pytest.mark.wire
@pytest.mark.parametrize(
    "block", read_all_blocks(ROOT / "README.md"), ids=lambda block: f"line {block.line}"
)
def test_every_block_of_the_readme_is_a_program(block: Block, tmp_path: Path) -> None:
    """N17: pasted into a file, it runs with plain Python, in any order."""
    file = tmp_path / "pasted.py"
    file.write_text(block.code, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, file.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_that_awaits_outside_of_functions_says_how_to_run_it(page: Path) -> None:
    """N17: a reader who pastes it into a file is told beforehand that a file needs more."""
    if any(block.needs_a_loop for block in read_all_blocks(page)):
        assert HOW_TO_RUN in page.read_text("utf-8"), f"add to the top of the page: {HOW_TO_RUN}"


def write(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    return page


def test_blocks_share_names_and_one_event_loop(tmp_path: Path) -> None:
    """A later block sees what an earlier one made, also after an await."""
    page = write(
        tmp_path,
        "```python\nimport asyncio\n\nloop = asyncio.get_running_loop()\n"
        "await asyncio.sleep(0)\n```\n"
        "text\n"
        "```python\nassert asyncio.get_running_loop() is loop\nopen('ran', 'w').close()\n```\n",
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        run_blocks(read_blocks(page))

    assert (tmp_path / "ran").exists()


def test_a_failing_block_is_reported_at_its_line(tmp_path: Path) -> None:
    """The traceback names the Markdown file and the line in it."""
    page = write(
        tmp_path, "# Title\n\n```python\nx = 1\n```\n\n```python\ny = 2\nassert x == y\n```\n"
    )

    with pytest.raises(AssertionError) as caught:
        run_blocks(read_blocks(page))

    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (str(page), 9)


def test_a_block_that_does_not_compile_is_reported_at_its_line(tmp_path: Path) -> None:
    """A syntax error names the Markdown file and the line in it too."""
    page = write(tmp_path, "# Title\n\n```python\nx = = 1\n```\n")

    with pytest.raises(SyntaxError) as caught:
        run_blocks(read_blocks(page))

    assert (caught.value.filename, caught.value.lineno) == (str(page), 4)


def test_a_block_may_stay_unrun_only_with_a_reason(tmp_path: Path) -> None:
    """`no-run` needs its reason, so that nobody silences a broken example by accident."""
    assert read_blocks(write(tmp_path, '```python no-run="needs a key"\n1 / 0\n```\n')) == ()

    for info in ("python no-run", 'python no-run=""', "python skip", "py"):
        with pytest.raises(ValueError, match=r"page\.md:1: write ```python"):
            read_blocks(write(tmp_path, f"```{info}\n1 / 0\n```\n"))


def test_only_python_fences_run(tmp_path: Path) -> None:
    """Other languages are left alone, also when they show a Python fence inside."""
    page = write(tmp_path, "````markdown\n```python\n1 / 0\n```\n````\n```bash\nexit 1\n```\n")

    assert read_blocks(page) == ()


def test_a_block_in_a_list_runs_without_its_indent(tmp_path: Path) -> None:
    """An indented fence is code of its own, not an indentation error."""
    page = write(tmp_path, "1. Do this:\n\n   ```python\n   if True:\n       x = 1\n   ```\n")

    (block,) = read_blocks(page)

    assert block.code == "if True:\n    x = 1\n"
    assert block.line == 4


def test_a_block_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    """A missing closing fence would otherwise hide every block after it."""
    with pytest.raises(ValueError, match=r"page\.md:1: this code block is never closed"):
        read_blocks(write(tmp_path, "```python\nx = 1\n"))


def test_the_blocks_of_a_section_can_be_had_alone(tmp_path: Path) -> None:
    """A test may try out what a page tells, without what stands around it."""
    page = write(
        tmp_path,
        "# Title\n\n```python\na = 1\n```\n\n## One\n\n```python\nb = 2\n```\n\n### More\n\n"
        "```python\nc = b + 1\n```\n\n## Two\n\n```python\n1 / 0\n```\n",
    )

    defined = run_blocks(blocks_under(page, "## One"))

    assert (defined["b"], defined["c"], "a" in defined) == (2, 3, False)
    assert len(blocks_under(page, "## Two")) == 1
