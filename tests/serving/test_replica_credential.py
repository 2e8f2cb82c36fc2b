"""How replicas know each other's requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.facts import FakeClock
from toolcrib.errors import UsageError
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.replica_credential import (
    PURPOSE,
    VALID_SECONDS,
    MisdirectedRequest,
    ReplicaCredential,
    ReplicaRequest,
)
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.store.address import store_address
from toolcrib.store.cipher import KEY_FILE_VARIABLE, KEY_VARIABLE, Cipher, new_key
from toolcrib.store.kept_store import ReplicaOptions, open_at
from toolcrib.transports.http.server import HttpServer

REQUEST = ReplicaRequest("POST", "/v1/replica/operations", b'{"operation": "tools.call"}')


def _keys(*texts: str) -> list[bytes]:
    return list(Cipher(",".join(texts)).derived(PURPOSE))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pair(clock: FakeClock) -> tuple[ReplicaCredential, ReplicaCredential]:
    """The credentials of the replicas `aa` and `bb`."""
    keys = _keys(new_key())
    return (
        ReplicaCredential(keys, "aa", clock=clock),
        ReplicaCredential(keys, "bb", clock=clock),
    )


Pair = tuple[ReplicaCredential, ReplicaCredential]


def test_a_replica_knows_a_request_of_another(pair: Pair) -> None:
    """It learns who asks, and shows in return that it answered."""
    one, two = pair
    signed = one.sign(REQUEST, "bb")

    known = two.check(REQUEST, signed.authorization)

    assert known.replica_id == "aa"
    proof = two.prove(known, b"the answer")
    assert one.is_proven(signed, "bb", proof, b"the answer")
    assert not one.is_proven(signed, "bb", proof, b"another answer")
    assert not one.is_proven(signed, "aa", proof, b"the answer")
    assert not one.is_proven(signed, "bb", None, b"the answer")


@pytest.mark.parametrize(
    "changed",
    [
        replace(REQUEST, body=b"{}"),
        replace(REQUEST, path="/v1/replica/events"),
        replace(REQUEST, method="GET"),
    ],
)
def test_a_changed_request_is_refused(pair: Pair, changed: ReplicaRequest) -> None:
    """Method, path and body are signed."""
    one, two = pair
    with pytest.raises(LoginFailed) as failed:
        two.check(changed, one.sign(REQUEST, "bb").authorization)
    assert failed.value.fault == "invalid"


def test_a_request_is_taken_once(pair: Pair, clock: FakeClock) -> None:
    """Whoever records one gains nothing by sending it again."""
    one, two = pair
    signed = one.sign(REQUEST, "bb")
    two.check(REQUEST, signed.authorization)
    with pytest.raises(LoginFailed, match="taken before"):
        two.check(REQUEST, signed.authorization)

    clock.now += VALID_SECONDS + 1
    with pytest.raises(LoginFailed) as failed:
        two.check(REQUEST, signed.authorization)
    assert failed.value.fault == "expired"


def test_an_old_request_and_one_of_the_future_are_refused(pair: Pair, clock: FakeClock) -> None:
    """The time is signed too."""
    one, two = pair
    signed = one.sign(REQUEST, "bb")
    for step in (VALID_SECONDS + 2, -2 * (VALID_SECONDS + 2)):
        clock.now += step
        with pytest.raises(LoginFailed) as failed:
            two.check(REQUEST, signed.authorization)
        assert failed.value.fault == "expired"


def test_a_request_for_another_replica_is_not_taken(pair: Pair) -> None:
    """An address that was given to another process leads to the wrong one."""
    one, two = pair
    with pytest.raises(MisdirectedRequest):
        two.check(REQUEST, one.sign(REQUEST, "cc").authorization)


@pytest.mark.parametrize("header", [None, "", "Bearer tc_abc", "Toolcrib-Replica bb.aa.1.2.3"])
def test_nothing_else_is_a_credential(pair: Pair, header: str | None) -> None:
    """Neither a token nor half a signature."""
    with pytest.raises(LoginFailed):
        pair[1].check(REQUEST, header)


def test_keys_are_replaced_one_replica_at_a_time() -> None:
    """The first key signs, all verify; a replica with another key is a stranger."""
    old, new = new_key(), new_key()
    before = ReplicaCredential(_keys(old), "aa")
    between = ReplicaCredential(_keys(new, old), "bb")
    after = ReplicaCredential(_keys(new), "cc")

    assert between.check(REQUEST, before.sign(REQUEST, "bb").authorization).replica_id == "aa"
    assert after.check(REQUEST, between.sign(REQUEST, "cc").authorization).replica_id == "bb"
    with pytest.raises(LoginFailed):
        after.check(REQUEST, before.sign(REQUEST, "cc").authorization)


def test_a_key_for_one_purpose_says_nothing_of_another() -> None:
    """They are derived, and none is the key of the store. Without one there is nothing to sign
    with.
    """
    text = new_key()
    cipher = Cipher(text)
    assert cipher.derived("one") != cipher.derived("two")
    assert cipher.derived("one") == Cipher(text).derived("one")
    with pytest.raises(UsageError, match="toolcrib store key"):
        Cipher("").derived("one")


async def test_a_server_that_shares_its_store_does_not_start_without_a_key(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how to make one; one in the file that the options name will do."""
    for name in (KEY_VARIABLE, KEY_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    key_file = tmp_path / "store.key"
    key_file.write_text(new_key() + "\n")
    address = store_address(postgres_url)

    for options in (ReplicaOptions(), ReplicaOptions(key_file=key_file)):
        store = open_at(address, replica=options)
        try:
            runtime = create_runtime(RuntimeConfig(store=store))
            if options.key_file is None:
                with pytest.raises(UsageError, match="toolcrib store key"):
                    HttpServer(runtime, tokens=Tokens([Token("t" * 40)]))
            else:
                assert HttpServer(runtime, tokens=Tokens([Token("t" * 40)])).credential is not None
        finally:
            store.close()
