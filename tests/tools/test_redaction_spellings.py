"""Security 16: a secret is hidden however it is spelt."""

from __future__ import annotations

import base64
import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.tools.redaction import Scrubber
from toolcrib.tools.secrets import SECRET

AWKWARD = "p\"a/s+s&w'ö<r>d \\1\n2"


def _basic(secret: str) -> str:
    return base64.b64encode(f"ann:{secret}".encode()).decode()


def _lower(spelt: str) -> str:
    parts = spelt.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda secret: json.dumps({"x": secret}),
    "json of unicode": lambda secret: json.dumps({"x": secret}, ensure_ascii=False),
    "json in json": lambda secret: json.dumps({"x": json.dumps({"y": secret})}),
    "url": lambda secret: quote(secret, safe=""),
    "url with slashes": quote,
    "url in lower case": lambda secret: _lower(quote(secret, safe="")),
    "form": quote_plus,
    "html": html.escape,
    "html text": lambda secret: html.escape(secret, quote=False),
    "html of markupsafe": lambda secret: (
        html.escape(secret).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    ),
    "repr": repr,
    "repr in a list": lambda secret: repr([secret, 1]),
    "ascii": ascii,
    "repr of bytes": lambda secret: repr(secret.encode()),
    "hex": lambda secret: secret.encode().hex(),
    "upper hex": lambda secret: secret.encode().hex().upper(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 without padding": lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
    "base64 for urls": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "basic": _basic,
    "base64 behind two": lambda secret: base64.b64encode(f"xy{secret}".encode()).decode(),
    "base64 before others": lambda secret: base64.b64encode(f"x{secret}yz".encode()).decode(),
}


def left_of(spelt: str, secret: str) -> str:
    """What a scrubber leaves of a text that holds a spelling."""
    shown = Scrubber([secret]).scrub(f"it said {spelt}, twice {spelt}")
    assert isinstance(shown, str)
    assert shown.count(SECRET) >= 2, shown
    return shown


@pytest.mark.parametrize("secret", [AWKWARD, "hunter2hunter2", "tok/live+1234=="])
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_spelling_is_hidden(secret: str, spell: Callable[[str], str]) -> None:
    """Nothing of it is left but what stood around it."""
    spelt = spell(secret)
    assert spelt not in left_of(spelt, secret)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30),
    st.sampled_from(sorted(SPELLINGS)),
)
def test_any_secret_is_hidden_in_any_spelling(secret: str, name: str) -> None:
    """Whatever characters it has."""
    spelt = SPELLINGS[name](secret)
    assert spelt not in left_of(spelt, secret)


@given(st.binary(max_size=7), st.text(min_size=8, max_size=20), st.binary(max_size=7))
def test_base64_is_hidden_wherever_the_secret_begins(
    before: bytes, secret: str, after: bytes
) -> None:
    """At most a byte on either side can be told from what is left."""
    data = secret.encode(errors="surrogatepass")
    shown = Scrubber([secret]).scrub(base64.b64encode(before + data + after).decode())
    assert SECRET in shown
    rest = shown.replace(SECRET, "")
    assert len(rest) <= (len(before) + len(after)) * 4 // 3 + 8


@pytest.mark.parametrize(
    "text",
    ["12,345,678", "12_345_678", "12.345.678", "12 345 678", "0xbc614e", "BC614E", "12345678.0"],
)
def test_a_number_is_hidden_in_every_notation(text: str) -> None:
    """Grouped, in hexadecimal, as a float."""
    assert Scrubber([12_345_678]).scrub(f"pin {text}!").replace("0x", "") == f"pin {SECRET}!"


@pytest.mark.parametrize("text", ["1e7", "1e+07", "1E7", "10000000", "1.0e7", "1e+7"])
def test_a_round_number_is_hidden_as_a_power(text: str) -> None:
    """As programs print large numbers."""
    shown = Scrubber([10_000_000]).scrub([f"is {text}", text])
    assert text not in shown[0]
    assert shown[1] == SECRET


def test_the_mark_of_a_secret_is_not_searched() -> None:
    """A secret that is a part of the mark does not grow it without end."""
    assert Scrubber(["secret", "hunter2"]).scrub("hunter2 secret") == f"{SECRET} {SECRET}"


def test_a_long_text_is_searched_in_linear_time() -> None:
    """Twice the text takes about twice the time, also when it almost matches everywhere."""
    scrubber = Scrubber(["a" * 30 + "b"])

    def seconds(size: int) -> float:
        text = "a" * size
        began = time.process_time()
        scrubber.scrub(text)
        return time.process_time() - began

    seconds(1000)
    assert seconds(2_000_000) < 5.0
