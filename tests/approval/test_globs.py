"""Globs match whole values, stop at slashes, and cannot be dodged or widened by odd spellings."""

import time

import pytest

from toolcrib.approval.globs import check_regex, full_match, name_matches, path_matches
from toolcrib.errors import InvalidPolicy


@pytest.mark.parametrize(
    ("glob", "name", "is_match"),
    [
        ("*", "anything", True),
        ("read", "read", True),
        ("read", "read_file", False),
        ("read", "bread", False),
        ("read_*", "read_file", True),
        ("read_*", "read_", True),
        ("read_?", "read_a", True),
        ("read_?", "read_", False),
        ("*.delete", "db.delete", True),
        ("*.delete", "db_delete", False),
        ("mcp:*", "mcp:https://host/path", True),
        ("READ", "read", False),
    ],
)
def test_a_name_glob_matches_the_whole_name(glob: str, name: str, is_match: bool) -> None:
    """Names have no folders: `*` is any text, and the rest stands for itself."""
    assert name_matches(glob, name) is is_match


@pytest.mark.parametrize(
    ("glob", "value", "is_match"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", False),
        ("src/*", "src", False),
        ("src/**", "src/deep/a.py", True),
        ("src/**", "srcs/a.py", False),
        ("**/.env", ".env", True),
        ("**/.env", "a/b/.env", True),
        ("**/.env", "a/b.env", False),
        ("src/**/test_*.py", "src/test_a.py", True),
        ("src/**/test_*.py", "src/x/y/test_a.py", True),
        ("a**/b", "ax/y/b", True),
        ("a**/b", "ab", False),
        ("**", "any/thing", True),
        ("?.txt", "a.txt", True),
        ("?.txt", "/.txt", False),
        ("a.c", "abc", False),
        ("a[b]c", "a[b]c", True),
        ("a[b]c", "abc", False),
        ("é*", "école", True),
    ],
)
def test_a_path_glob_matches_the_whole_path(glob: str, value: str, is_match: bool) -> None:
    """`*` and `?` stop at a slash, `**` does not, and no prefix is enough."""
    assert path_matches(glob, value, "narrow") is is_match
    assert path_matches(glob, value, "wide") is is_match


@pytest.mark.parametrize(
    "value",
    [
        "/data/../etc/passwd",
        "/data/..",
        "/data/./a",
        "/data//a",
        "//data/a",
        "/data/a/",
        "/data/a\0.txt",
        "/data/a\nb",
        "/data/..\\..\\etc",
        "/data/a\\b",
        "/data/\x7f",
        "/data/\ud800",
        "/data/%2e%2e",
        "/data/%2E%2E/etc",
        "/data/a\u202e.txt",
        "/data/\u200bsecret",
        " /data/a",
        "/data/a ",
        "file:/data/a",
        "~/data",
        "~root",
    ],
)
def test_an_oddly_spelled_path_never_helps_an_allow(value: str) -> None:
    """What a tool may take for another path than it seems is never allowed by a glob."""
    assert not path_matches("/data/**", value, "narrow")
    assert not path_matches("**", value, "narrow")


@pytest.mark.parametrize(
    "value",
    [
        "/etc/passwd",
        "/tmp/../etc/passwd",
        "/etc/./passwd",
        "//etc/passwd",
        "/etc//passwd",
        "\\etc\\passwd",
        "/tmp\\..\\etc/passwd",
        "/etc/passwd\0.txt",
        "/etc/\ud800",
        "/etc",
        "/etc/",
        " /etc/passwd",
        "\t/etc/passwd\n",
        "/ETC/passwd",
        "/Etc",
        "file:///etc/passwd",
        "FILE://localhost/etc/passwd",
        "file:/etc/passwd",
        " file:///tmp/%2e%2e/etc/passwd",
        "/tmp/%2e%2e/etc/passwd",
        "/tmp/%252e%252e/etc/passwd",
        "/%65tc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/1/root/etc",
        "/proc/self/task/7/root/etc/passwd",
        "/proc/self/root/proc/thread-self/root/etc/passwd",
        "/tmp/../proc/self/root/etc/passwd",
        "/e\u202etc/passwd",
        "/\uff45tc/passwd",
        "\uff0fetc/passwd",
    ],
)
def test_an_oddly_spelled_path_does_not_dodge_a_deny(value: str) -> None:
    """A deny or ask rule sees the path as written and as a tool would resolve it."""
    assert path_matches("/etc/**", value, "wide")


def test_a_home_is_denied_under_its_short_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is a path of the user that the process runs as."""
    monkeypatch.setenv("HOME", "/people/ada")

    assert path_matches("/people/ada/.ssh/**", "~/.ssh/id_rsa", "wide")


@pytest.mark.parametrize("value", ["/etcetera", "/tmp/etc", "etc", "/proc/self/rooted/etc/passwd"])
def test_a_deny_does_not_match_its_neighbours(value: str) -> None:
    """Wide is not everything: another path stays another path."""
    assert not path_matches("/etc/**", value, "wide")


def test_odd_spellings_do_not_slow_the_gate() -> None:
    """Each step is taken once, however long and odd the value is."""
    value = "%25" * 100_000 + "/../" * 50_000 + "\uff0f" * 50_000
    started = time.process_time()

    assert not path_matches("/etc/**", value, "wide")

    assert time.process_time() - started < 5


def test_a_path_is_denied_as_written_too() -> None:
    """A tool may take the path literally, so the raw spelling counts as well."""
    assert path_matches("/link/../**", "/link/../secret", "wide")


def test_a_regex_cannot_hang_the_gate() -> None:
    """Matching takes time linear in the value, also for patterns that make others backtrack."""
    check_regex("(a+)+b")
    started = time.process_time()

    assert not full_match("(a+)+b", "a" * 50_000)
    assert not full_match("(?:.*a){12}", "b" * 5_000)

    assert time.process_time() - started < 5


@pytest.mark.parametrize("regex", ["(", "a)|(b", "(?=a)", r"(a)\1", "[z-a]", "(?x)a # b"])
def test_a_regex_that_cannot_be_judged_is_refused(regex: str) -> None:
    """A pattern that does not compile is an error when the policy is made, not at the call."""
    with pytest.raises(InvalidPolicy, match="cannot be used"):
        check_regex(regex)
