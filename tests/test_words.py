"""The repository stays portable and readable: no private paths, no registries, no giant modules."""

import ast
import re
import subprocess
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "toolcrib"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 500
LONGEST_FUNCTION = 60

NOUNS_IN_ING = {"encoding", "serving", "testing", "string"}
NOUNS_IN_ED = {"embedded"}  # the embedded provider: the word of the glossary
IRREGULAR_PARTICIPLES = {"asked", "found", "given", "held", "kept", "made", "said", "shown", "told"}
METAPHORS = {
    "brain",
    "desk",
    "door",
    "home",
    "line",
    "pace",
    "seat",
    "shelf",
    "sieve",
    "tree",
    "voice",
    "warm",
    "whole",
    "work",
}

# In pieces, so that this file does not contain what it forbids.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/" + r"(?:work|root|home/[a-z]\w*|Users/[A-Za-z]\w*)/")
REGISTRIES = re.compile(
    "|".join(["pypi" + r"\.org/simple", "files" + r"\.pythonhosted", "registry" + r"\.npmjs"])
    + "|--(?:extra-)?index"
    + "-url"
)


def tracked_texts() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, str] = {}
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        # A file may be deleted in the tree and still be listed until the next commit.
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            found[name] = data.decode("utf-8")
    return found


def path_words(path: Path) -> list[str]:
    """The names of a module and of the packages around it."""
    return [part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    """What works only on its author's machine is not committed."""
    assert lines_with(MACHINE_PATHS) == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_tracked_file_names_a_package_registry() -> None:
    """Where packages come from is the user's choice, set in the user's own configuration."""
    assert lines_with(REGISTRIES) == []


@pytest.mark.parametrize(
    ("line", "is_private"),
    [
        ("cd /" + "work/main", True),
        ("see /" + "root/.cache", True),
        ('open("/' + 'home/jo/x")', True),
        ("/" + "Users/jo/x", True),
        ("file:///" + "home/jo/x", True),
        ("frame/work/flow/", False),
        ("https://example.com/home/page/", False),
        ("/workspace/", False),
    ],
)
def test_the_pattern_knows_a_machine_path(line: str, is_private: bool) -> None:
    """The rule above finds private paths and leaves other slashes alone."""
    assert bool(MACHINE_PATHS.search(line)) is is_private


def test_there_are_modules_to_look_at() -> None:
    """The rules below would hold for an empty list, so the list must not be empty."""
    assert PACKAGE / "__init__.py" in MODULES


def test_no_module_is_too_long() -> None:
    """A module holds one idea; past the limit a second one has moved in."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    # One catalogue: the tree of errors is drawn and declared in one place.
    catalogue = lengths.pop(PACKAGE / "errors.py")

    too_long = {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > LONGEST_MODULE}
    assert too_long == {}
    assert catalogue <= LONGEST_MODULE * 1.2


def test_no_function_is_too_long() -> None:
    """A function does one thing."""
    too_long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > LONGEST_FUNCTION
    ]

    assert too_long == []


def test_the_package_is_small_enough_to_know() -> None:
    """A reader can hold the list of modules, and most modules are worth opening."""
    lengths = [len(path.read_text("utf-8").splitlines()) for path in MODULES]

    assert len(MODULES) <= 900
    assert 110 <= median(lengths) <= 200


@pytest.mark.parametrize("name", sorted({word for path in MODULES for word in path_words(path)}))
def test_modules_are_named_by_nouns(name: str) -> None:
    """A name says what a module holds, not that something happens in it or was done."""
    assert name not in METAPHORS
    assert name in NOUNS_IN_ING or not name.endswith("ing")
    assert name in NOUNS_IN_ED or not name.endswith("ed")
    assert name not in IRREGULAR_PARTICIPLES


def test_no_class_name_stands_for_two_things() -> None:
    """One name, one class: a reader who knows a name knows the class."""
    homes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))

    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_every_module_has_a_docstring() -> None:
    """A reader learns from a module's first line what lives there."""
    silent = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]

    assert silent == []
