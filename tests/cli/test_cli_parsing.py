"""Parsing of conditions, partitions and names, and specs printed as TOML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.cli.commands.train_and_score import to_toml
from probclass_core.cli.options import parse_names, parse_partition, parse_where
from probclass_core.errors import SpecError


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("month >= 2013-01", ("month", ">=", "2013-01")),
        ("  x  <  -1.5 ", ("x", "<", "-1.5")),
        ("a=1", ("a", "=", "1")),
        ("a != b c", ("a", "!=", "b c")),
        ("name == O'Brien, Pat", ("name", "==", "O'Brien, Pat")),
        ('name == "=odd"', ("name", "==", "=odd")),
        ("wind in (NW, SE)", ("wind", "in", ["NW", "SE"])),
        ("wind in[NW]", ("wind", "in", ["NW"])),
        ("wind not in NW,SE", ("wind", "not in", ["NW", "SE"])),
        ("wind in 'a, b', \"it's\", O'Brien", ("wind", "in", ["a, b", "it's", "O'Brien"])),
        ("'made in > sold in' == 3", ("made in > sold in", "==", "3")),
    ],
)
def test_a_condition_is_parsed(text: str, condition: Any) -> None:
    assert parse_where([text]) == [condition]


@pytest.mark.parametrize(
    "text",
    [
        *("", "month", "month >=", ">= 3", "a => 3", "a =< 3", "a <> 3", "a === 3"),
        *("a in", "a in ()", "a in x,,y", "a in x,", "a in ,x", "a is 3", "a in 'x", "a == 'x"),
    ],
)
def test_an_invalid_condition_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match=r'as in --where "month >= 2013-01"') as caught:
        parse_where([text])
    assert repr(text) in str(caught.value)


def test_partitions_keep_their_order() -> None:
    parsed = parse_partition(["year=2014", "note = a=b"])
    assert list(parsed.items()) == [("year", "2014"), ("note", "a=b")]


@pytest.mark.parametrize("text", ["", "month", "month=", "=2014", "month==2014", "month >= 2014"])
def test_an_invalid_partition_is_an_error_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match="as in --partition month=2014-01"):
        parse_partition([text])


def test_a_repeated_partition_column_is_an_error() -> None:
    with pytest.raises(SpecError, match=r'--where "month in 2014-01,2014-02"'):
        parse_partition(["month=2014-01", "month=2014-02"])


def test_names_are_repeated_or_separated_by_commas() -> None:
    assert parse_names(["time, air", '"a, b"'], "--columns") == ["time", "air", "a, b"]


toml_values = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    label=st.text(min_size=1),
    options=st.dictionaries(st.from_regex(r"[a-z_]{3,9}x", fullmatch=True), toml_values),
    prior=st.sampled_from(["uniform", {"good": 0.25, "not so good": 0.75}]),
)
def test_a_spec_printed_as_toml_reads_back_equal(label: str, options: Any, prior: Any) -> None:
    blocks = [pc.Block("one", [f"{label} x"], **options), pc.Block("one", [f"{label} y", "z"])]
    spec = pc.ModelSpec(f"{label}!", blocks, prior=prior, weight="w")
    assert pc.ModelSpec.from_dict(tomllib.loads(to_toml(spec))) == spec


def test_a_spec_with_null_cannot_be_printed_as_toml() -> None:
    with pytest.raises(SpecError, match="--json"):
        to_toml(pc.ModelSpec("air", [pc.Block("one", ["x"], limit=None)]))


@pytest.mark.parametrize("words", ["", "table", "cache", "plugin"])
def test_commands_without_a_command_show_their_help(probclass: Any, words: str) -> None:
    assert probclass.ok(words).out == probclass.ok(f"{words} --help").out
    assert "\nCommands:\n" in probclass.ok(words).out
