"""A secret in an address or a record is on no way out: messages, representations, output, pages."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.display import described_rows
from probclass_core.errors import hide_credentials, without_credentials

SECRETS = ["HUshpw9", "HU/shpw9", "HU@shpw9", "HU/sh@pw9", "HU:shpw9", "HU%2Fshpw9", "HU+shpw9="]
PLACES = [
    "s3://AK:{}@bucket/x",
    "s3://AK:{}@bucket/x/a@b",
    "https://user:{}@host:9000/x",
    "https://host/x?X-Amz-Signature={}",
    "s3://bucket/x?secret_key={}",
    "s3://bucket/x?access_key=AK&secret_key={}&endpoint_override=h:1",
    "delta+s3://AK:{}@bucket/x",
    "nowhere://AK:{}@bucket/x",
]
ADDRESSES = [place.format(secret) for place in PLACES for secret in SECRETS]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/lake/a?b@c", "/lake/a?b@c"),
        ("s3://bucket/air", "s3://bucket/air"),
        ("s3://bucket/at 10:30@noon", "s3://bucket/at 10:30@noon"),
        ("s3://bucket/day=2014-01-01T10:30@noon", "s3://bucket/day=2014-01-01T10:30@noon"),
        ("abfss://lake@account.dfs/air", "abfss://lake@account.dfs/air"),
        ("http://localhost:9000/air@champion", "http://localhost:9000/air@champion"),
        ("s3://bucket/trips-?.csv", "s3://bucket/trips-?.csv"),
        ("s3://key:secret@bucket/air", "s3://***@bucket/air"),
        ("csv+file://a.csv?delimiter=;&decimal=,", "csv+file://a.csv"),
        ("cannot read s3://b/x?secret_key=s: no access.", "cannot read s3://b/x: no access."),
    ],
)
def test_what_is_no_secret_is_shown(text: str, shown: str) -> None:
    assert hide_credentials(text) == shown


@given(st.text("abcXYZ019/+=@:%-_.~", min_size=6).map(lambda text: f"q{text}q"))
def test_no_password_is_shown(secret: str) -> None:
    for place in PLACES[:3]:
        assert secret not in hide_credentials(f"cannot open {place.format(secret)}: no.")
    record = {"source": [{"uri": f"s3://AK:{secret}@bucket/x"}], "secret_key": secret}
    assert secret not in json.dumps(without_credentials(record))


def is_hidden(text: str) -> bool:
    return "pw9" not in text


@pytest.mark.parametrize("address", ADDRESSES)
def test_errors_and_representations_hide_secrets(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing answers at this address, so that every attempt ends at once.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    attempts: list[Any] = [
        lambda: repr(pc.TableRef(address)),
        lambda: repr(pc.ModelStore(address)),
        lambda: pc.open_table(pc.TableRef(address, format="csv", version=1)),
        lambda: pc.TableRef(address, format="csv", options={"delimiter": 3}),
    ]
    if not address.startswith(("s3", "delta", "https")):
        attempts += [lambda: pc.open_table(address), lambda: pc.ModelStore(address).models()]
    for attempt in attempts:
        try:
            text = str(attempt())
        except pc.ProbClassError as error:
            text = "".join(traceback.format_exception(error))
        source = [line for line in text.splitlines() if 'File "' not in line]
        assert is_hidden("\n".join(source)), text
    if address.startswith("nowhere"):
        for command in (["models", "ls", "--store", address], ["fit", address, "--label", "y"]):
            result = CliRunner().invoke(app, command)
            assert result.exit_code
            assert result.output
            assert is_hidden(result.output)


def test_records_are_shown_without_secrets(tmp_path: Path) -> None:
    rows = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"]})
    store = pc.ModelStore(tmp_path)
    provenance = {
        "sources": ["s3://AK:HU/shpw9@bucket/x", {"uri": "s3://b/x?secret_key=HUshpw9"}],
        "password": "HUshpw9",
    }
    model = pc.fit(rows, pc.ModelSpec("y", {"gaussian_diagonal": ["x"]}))
    version = store.save(model, "air", provenance=provenance)
    store.promote("air", version, alias="champion", reason="from s3://AK:HU/shpw9@bucket/x")
    for command in ("inspect air", "models air", "models history air", "models ls"):
        for more in ([], ["--json"]):
            result = CliRunner().invoke(app, [*command.split(), "--store", str(tmp_path), *more])
            assert result.exit_code == 0, result.output
            assert is_hidden(result.output), command
    assert is_hidden(described_rows({"source": provenance["sources"][0]}))
