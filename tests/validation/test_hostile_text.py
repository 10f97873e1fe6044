"""Specs and conditions that were made to take forever: refused at once, in one line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.io.filters import expression, parse_conditions

DEEP = 100_000
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@contextmanager
def refused_at_once(message: str) -> Iterator[None]:
    """Expect a SpecError of one short line, within seconds of this thread's processor time.

    What the texts were made for takes minutes; threads that other tests left do not count.
    """
    start = time.thread_time()
    with refused(SpecError, message) as caught:
        yield
    assert time.thread_time() - start < 5.0
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("spec.yaml", BOMB, "aliases .* are not supported; write the value out"),
        ("spec.yaml", "blocks: &a [*a]", "aliases .* are not supported; write the value out"),
        ("spec.yaml", "[" * DEEP, "nested more than 64 deep"),
        ("spec.json", "[" * DEEP + "]" * DEEP, "nested more than 64 deep"),
        ("spec.json", "[" * 70 + "]" * 70, "nested more than 64 deep"),
        ("spec.toml", f"a = {'[' * DEEP}{']' * DEEP}", "nested more than 64 deep"),
        ("spec.toml", f"a{'.a' * 500_000} = 1", "nested more than 64 deep"),
        ("spec.toml", f"a = {{'x'{' . a' * 200_000} = 1}}", "nested more than 64 deep"),
        ("spec.yaml", "a: 1" + ":1" * 100_000, "not text has more than 1,000 characters"),
        ("spec.toml", "#" * 2_000_000, "has more than 1,048,576 bytes; is it the model spec"),
        ("spec.json", '{"label": "a", "label": "b", "blocks": []}', "key 'label' is given twice"),
        ("spec.yaml", "label: a\nlabel: b\nblocks: []", "key 'label' is given twice"),
        ("spec.json", "9" * 5_000, "is not valid JSON"),
        ("spec.yaml", "!!python/object/apply:os.system [ls]", "is not valid YAML"),
        ("spec.txt", "label = 1", r"expected a \.toml, \.json, \.yaml or \.yml file"),
        ("spec.toml", "label =", "is not valid TOML: "),
        ("spec.json", "{", "is not valid JSON: "),
        ("spec.yaml", "a: [1\nb: 2", "is not valid YAML: "),
        ("spec.json", "[1]", "a model spec must be a table of keys, got list"),
        ("spec.yaml", "", "a model spec must be a table of keys, got NoneType"),
        ("spec.yml", "label: c\nblock: []", r"unknown key 'block'.* Did you mean 'blocks'\?"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_a_hostile_spec_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with refused_at_once(message):
        pc.ModelSpec.from_file(tmp_path / name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with refused_at_once("cannot read the model spec .*No such file"):
        pc.ModelSpec.from_file(tmp_path / "spec.toml")


@pytest.mark.parametrize(
    "text",
    [
        "x" + " " * 20_000 + "y",
        "x = " + " " * 20_000,
        "x not" + " " * 20_000,
        "x" + " and" * 20_000,
        "(" * 20_000,
        "x in a" + " " * 20_000 + "b,",
        "x in " + "," * 20_000,
        "'x" * 20_001,
        "x = 1 or " * 10_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_condition_is_refused(text: str) -> None:
    with refused_at_once("where "):
        parse_conditions(text)


def test_the_number_of_conditions_is_bounded() -> None:
    schema = pa.schema([("x", pa.int64())])
    with refused_at_once("where has 10,000 conditions, at most 1,000"):
        expression(schema, None, " and ".join(["x > 1"] * 10_000))
    with refused_at_once("where has 1,100,003 characters"):
        expression(schema, None, "x >" + " " * 1_100_000)
    rows = ds.dataset(pa.table({"x": [1, 2]}))
    assert rows.to_table(filter=expression(schema, None, ["x > 1"] * 1_000)).num_rows == 1


WORDS = st.sampled_from(
    [*("and", "or", "in", "not", "<", "x", "=", "!="), "'a and b'", "(1, 2)", *", '("]
)
QUOTED = st.text("ab and or in,o<=>!'()[]ü")
NAME = QUOTED.filter(bool)


@given(st.lists(WORDS).map(" ".join) | st.lists(WORDS).map("".join) | st.text())
def test_any_text_is_conditions_or_an_error(text: str) -> None:
    with suppress(SpecError):
        for column, operator, value in parse_conditions(text):
            assert column
            assert isinstance(value, list) == operator.endswith("in")


@given(
    st.lists(
        st.tuples(NAME, st.sampled_from(["==", "=", "!=", "<", "<=", ">="]), QUOTED)
        | st.tuples(NAME, st.sampled_from(["in", "not in"]), st.lists(QUOTED, min_size=1)),
        min_size=1,
        max_size=4,
    )
)
def test_quoted_text_is_literal(conditions: list[tuple[str, str, Any]]) -> None:
    def written(value: Any) -> str:
        return ", ".join(map(written, value)) if isinstance(value, list) else f'"{value}"'

    text = " and ".join(f"{written(name)} {op} {written(value)}" for name, op, value in conditions)
    assert parse_conditions(text) == conditions
