"""Options of object stores have one name each, and each library accepts its name for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.fs
import pyiceberg.io
import pytest
from buckets import SECRET
from monthly_lake import SPEC
from obstore.exceptions import GenericError
from obstore.store import AzureStore, GCSStore, S3Store

import probclass_core as pc
from probclass_core.errors import StoreError, TableError
from probclass_core.io.object_stores import open_location
from probclass_core.io.storage_options import (
    NOT_IN_CONFIG,
    SERVICES,
    obstore_options,
    pyarrow_options,
    pyiceberg_options,
    read_options,
)

PYARROW: dict[str, Callable[..., Any]] = {
    "S3": pyarrow.fs.S3FileSystem,
    "Azure": pyarrow.fs.AzureFileSystem,
    "Google Cloud Storage": pyarrow.fs.GcsFileSystem,
}
OBSTORE: dict[str, Any] = {"S3": S3Store, "Azure": AzureStore, "Google Cloud Storage": GCSStore}
URLS = dict.fromkeys(["endpoint", "base_url", "proxy_url"], "http://localhost:9")
VALUES: dict[type, Any] = {bool: "true", float: "1.5", str: "text"}


@pytest.mark.parametrize("service", SERVICES)
def test_each_library_knows_its_names(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # nobody answers who takes which role
    of_iceberg = {name for name in vars(pyiceberg.io).values() if isinstance(name, str)}
    account = {"account_name": "account"} if service == "Azure" else {}
    for option in SERVICES[service]:
        given = {**account, option.name: URLS.get(option.name, VALUES[option.kind])}
        # An option alone may be refused, as a key without its secret, but not as unknown.
        if option.pyarrow:
            with suppress(ValueError, OSError):
                PYARROW[service](**pyarrow_options(service, given))
        if option.pyiceberg:
            assert of_iceberg.issuperset(pyiceberg_options(given))
        if option.name not in NOT_IN_CONFIG:
            with suppress(GenericError):
                OBSTORE[service]("bucket", config=obstore_options(read_options(service, given)))


def test_properties_of_a_catalog_are_passed_on() -> None:
    properties = {"uri": "http://c", "s3.region": "r", "header.x": "y"}
    assert pyiceberg_options(properties) == properties
    storage = {"account_name": "a", "endpoint": "https://a.blob.core.example"}
    assert pyiceberg_options({**properties, **storage}) == {
        **properties,
        "adls.account-name": "a",
        "adls.blob-storage-authority": ".blob.core.example",
        "adls.dfs-storage-authority": ".dfs.core.example",
        "adls.blob-storage-scheme": "https",
        "adls.dfs-storage-scheme": "https",
    }


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("s3://b/t", {"acess_key_id": "a"}, r"'acess_key_id'\. .* 'access_key_id'\? Its .* 'r"),
        ("delta+s3://b/t", {"aws_region": "a"}, r"S3 .* 'aws_region'\. Did you mean 'region'"),
        ("gs://b/t", {"endpoint": "http://h"}, r"Google Cloud Storage has no option 'endpoint'\. "),
        ("abfs://b/t", {"account_name": "a", "timeout": 3}, "pyarrow has no option 'timeout'"),
        ("delta+s3://b/t", {"external_id": "a"}, "deltalake has no option 'external_id'"),
        ("s3://b/t", {"skip_signature": "yes"}, "skip_signature is 'yes'; expected true or false"),
        ("s3://b/t", {"timeout": "5s"}, "timeout is '5s'; expected seconds"),
        ("s3://b/t", {"endpoint": "localhost:9"}, "'localhost:9'; expected a URL, as http://"),
        ("delta+file:///tmp/t", {"region": "a"}, "a local path takes no options"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(uri: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        pc.fit(pc.TableRef(uri, options=options), SPEC)
    if "+" not in uri:
        with pytest.raises(StoreError, match=message):
            pc.ModelStore(uri, options=options).models()


def test_the_docs_name_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
    table = page.partition("| option | of | meaning |")[2].partition("\n\n")[0]
    named = {
        name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert named == {option.name for known in SERVICES.values() for option in known}


def test_a_secret_is_not_shown() -> None:
    secrets = {"access_key_id": "k", "secret_access_key": SECRET, "region": "r"}
    assert SECRET not in repr(open_location("s3://b/table", secrets))
