"""JSON with comments: one value changes, and every other character stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.commented_json import parse, remove_value, set_value, value_at
from toolcrib.errors import UsageError

ZED = """\
// Zed settings
{
  /* fonts */
  "buffer_font_size": 15, // large
  "context_servers": {
    "other": {"command": "x", "args": ["// no comment", "a,b"]}, // mine
  },
}
"""
ENTRY = {"command": "/usr/bin/python3", "args": ["-m", "toolcrib"]}


def test_comments_and_commas_stay() -> None:
    """A server is added after the others, in the form of the file."""
    text = set_value(ZED, ("context_servers", "shop"), ENTRY)

    assert (
        text
        == """\
// Zed settings
{
  /* fonts */
  "buffer_font_size": 15, // large
  "context_servers": {
    "other": {"command": "x", "args": ["// no comment", "a,b"]}, // mine
    "shop": {
      "command": "/usr/bin/python3",
      "args": [
        "-m",
        "toolcrib"
      ]
    },
  },
}
"""
    )
    assert remove_value(text, ("context_servers", "shop")) == ZED


def test_a_value_is_replaced_in_its_place() -> None:
    """What stands before and behind it does not move."""
    text = set_value(ZED, ("context_servers", "other"), {})

    assert text == ZED.replace('{"command": "x", "args": ["// no comment", "a,b"]}', "{}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{ }\n",
        '{"a": 1}',
        '{"a": 1,}',
        '{\n  "a": 1 // last\n}\n',
        '{\n\t"a": {},\n\t"s": {}\n}\n',
        '{\r\n    "a": 1\r\n}\r\n',
        '\ufeff{"a": [1, 2,], "s": {"t": null}}',
        "{ // why\n}\n",
        '{"s": {"t": {"u": "\\"}"}}}',
    ],
)
def test_every_form_of_a_file_is_kept(text: str) -> None:
    """Nothing is lost, the new value is there, and its removal leaves the old data."""
    before: Any = parse(text).value if text.strip() else {}
    after = set_value(text, ("s", "shop"), ENTRY)

    assert value_at(after, ("s", "shop")) == ENTRY
    assert ("\r\n" in after) == ("\r\n" in text)
    assert after.count("//") == text.count("//")
    before.setdefault("s", {})
    assert parse(remove_value(after, ("s", "shop"))).value == before


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "line 1: here should be a text"),
        ('{\n  "a" 1\n}', "line 2: after 'a' should be a colon"),
        ('{\n "a": 1\n "b": 2}', "line 3: here should be a comma"),
        ('{"a": [1 2]}', "here should be a comma or ]"),
        ('{"a": nope}', "here should be a JSON value"),
        ("{} x", "something after the end"),
        ('{"a": "\\x"}', "a text in double quotes"),
        ("// only a comment", "here should be a JSON value"),
        ('{"s": 5}', "line 1: this should be an object"),
        ('{"s": {}, "s": {}}', "'s' is there twice"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, fault: str) -> None:
    """Nothing is guessed about a file that its owner has to mend."""
    with pytest.raises(UsageError, match=fault):
        set_value(text, ("s", "shop"), ENTRY)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), _JSON, max_size=4), st.sampled_from([None, 2, "\t"]))
def test_any_json_keeps_its_data(data: dict[str, Any], indent: int | str | None) -> None:
    """Whatever a file holds, it holds afterwards, with one server more."""
    data["servers"] = {}
    text = json.dumps(data, indent=indent)

    after = set_value(text, ("servers", "shop"), ENTRY)

    assert json.loads(after) == {**data, "servers": {"shop": ENTRY}}
    assert json.loads(remove_value(after, ("servers", "shop"))) == data
