from __future__ import annotations

import asyncio
import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.models.api.api_key import MASK, mask_cut_text, mask_text, mask_values, read_key
from stepscore.models.api.http import Server

KEY = "sk-7Fq+3Zk/9vTb=Wx2L"
KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=60)


@pytest.mark.parametrize(
    "key", ["sk-one\nsk-two", "sk-a\tb", "sk one", "sk-\x00", "sk-\x7f", "schlüssel", "sk-\u200b1", "“sk-1”"]
)
def test_a_key_that_no_header_can_hold_is_refused_by_its_name_and_not_sent(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A NUL cannot stand in an environment, but in what reads one.
    monkeypatch.setattr("stepscore.models.api.api_key.os.environ", {"SOME_API_KEY": key})
    with pytest.raises(OptionError, match="The key in SOME_API_KEY holds") as caught:
        read_key("SOME_API_KEY")
    assert key not in str(caught.value)
    assert all(part not in str(caught.value) for part in ("sk-", "schl"))
    # Nothing listens there: an error of the connection would say that it was tried.
    with pytest.raises(OptionError, match="Nothing was sent"):
        asyncio.run(Server("http://127.0.0.1:9/v1", "SOME_API_KEY").post("chat/completions", {}))


@pytest.mark.parametrize(("kept", "key"), [(f" {KEY}\n", KEY), ("", ""), ("  ", "")])
def test_white_space_around_a_key_does_not_count(
    kept: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", kept)
    assert read_key("SOME_API_KEY") == key


@given(KEYS, st.text(max_size=20), st.text(max_size=20))
def test_a_key_is_masked_in_every_form_a_server_repeats_it_in(key: str, before: str, after: str) -> None:
    for form in (key, quote(key), quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1]):
        masked = mask_text(before + form + after, key)
        assert form not in masked.replace(MASK, "\0")


@given(KEYS, st.binary(max_size=8), st.binary(max_size=8))
def test_a_key_is_masked_inside_a_text_in_base64(key: str, before: bytes, after: bytes) -> None:
    text = base64.b64encode(before + key.encode() + after).decode()
    masked = mask_text(text, key)
    assert MASK in masked
    # What is left of it is too little to hold the key's middle.
    assert all(len(part) * 6 < (len(before) + len(after) + 6) * 8 + 12 for part in masked.split(MASK))


def test_values_are_masked_wherever_they_are_and_numbers_stay() -> None:
    value = {KEY: [1, 2.5, None, True, {"a": f"x{KEY}y"}], "b": KEY}
    assert mask_values(value, KEY) == {MASK: [1, 2.5, None, True, {"a": f"x{MASK}y"}], "b": MASK}


@pytest.mark.parametrize("key", ["", "EMPTY", "none"])
def test_an_answer_keeps_a_word_that_is_no_key(key: str) -> None:
    assert mask_values({"text": "EMPTY, or none"}, key) == {"text": "EMPTY, or none"}


@pytest.mark.parametrize("length", [8, 12, len(KEY) - 1, len(KEY)])
def test_the_beginning_of_a_key_at_the_end_of_a_cut_text_is_masked(length: int) -> None:
    assert mask_cut_text(f"{KEY} and {KEY[:length]}", KEY) == f"{MASK} and {MASK}"


def test_a_cut_text_without_a_key_stays() -> None:
    assert mask_cut_text(f"well, {KEY[:4]}", KEY) == f"well, {KEY[:4]}"
    assert mask_cut_text("well", "") == "well"
