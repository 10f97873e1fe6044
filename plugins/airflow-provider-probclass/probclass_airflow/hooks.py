"""Tables and model stores with the credentials of an Airflow connection.

`ProbClassHook` reads a connection of the type ``probclass``, or of the types of the common
providers, which need not be installed. Operators take connection ids as ``source_conn_id``,
``sink_conn_id`` and ``store_conn_id``. Credentials are passed to the library as options of a
`TableRef` or a `ModelStore`, which are never shown or recorded, and Airflow masks them in logs.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from probclass_airflow.credentials import Credentials, read_credentials, storage_options

if TYPE_CHECKING:
    from probclass_core import ModelStore, TableRef

_GOOGLE_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
_GOOGLE_KEY_LOCK = threading.Lock()


class ProbClassHook(BaseHook):
    """A connection that opens tables and model stores.

    Args:
        probclass_conn_id: id of a connection of type ``probclass``, ``aws``, ``wasb``, ``adls``,
            ``google_cloud_platform``, ``iceberg`` or ``generic``.
    """

    conn_name_attr = "probclass_conn_id"
    default_conn_name = "probclass_default"
    conn_type = "probclass"
    hook_name = "probclass table or model store"

    def __init__(self, probclass_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = probclass_conn_id

    def get_conn(self) -> Any:
        """The Airflow connection."""
        try:
            return self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"connection {self.conn_id!r} does not exist; create it, or use another one."
            ) from None

    def table(self, uri: str) -> TableRef:
        """A reference to a table with the options that open it.

        Raises:
            AirflowFailException: if the connection does not exist or does not fit the table.
        """
        import probclass_core as pc

        ref = pc.TableRef.parse(uri)
        return replace(ref, options={**self._options(ref.uri, ref.format), **ref.options})

    def model_store(self, uri: str) -> ModelStore:
        """The model store at a URI.

        Raises:
            AirflowFailException: if the connection does not exist or does not fit the store.
            StoreError: if the store cannot be opened.
        """
        import probclass_core as pc

        return pc.ModelStore(uri, options=self._options(uri, None))

    def credentials(self, uri: str) -> Credentials:
        """The credentials for a URI; Airflow masks their secrets in logs from now on.

        Raises:
            AirflowFailException: if the connection does not exist or does not fit the URI.
        """
        try:
            credentials = read_credentials(self.get_conn(), uri)
        except ValueError as error:
            raise AirflowFailException(f"connection {self.conn_id!r} {error}") from None
        for secret in credentials.secrets:
            mask_secret(secret)
        return credentials

    def test_connection(self) -> tuple[bool, str]:
        """Read the table or folder in the field ``place``; the form of Airflow calls this."""
        import probclass_core as pc

        place = self.get_conn().extra_dejson.get("place")
        if not place:
            return False, "the field 'place' is empty; enter a table or folder to test."
        try:
            with connected([(self.conn_id, place)]):
                ref = self.table(place)
                if ref.uri.startswith("iceberg://") or ref.format:
                    pc.open_table(ref)
                else:
                    self.model_store(place).models()
        except (pc.ProbClassError, AirflowFailException) as error:
            return False, str(error)
        return True, f"{ref.uri} can be read."

    def _options(self, uri: str, table_format: str | None) -> dict[str, Any]:
        return storage_options(self.credentials(uri), table_format)


def table_ref(uri: str, conn_id: str | None) -> TableRef | str:
    """A table for the library: a reference with options or, without a connection, the URI."""
    return uri if conn_id is None else ProbClassHook(conn_id).table(uri)


def open_store(uri: str, conn_id: str | None) -> ModelStore:
    """A model store, with the options of a connection if there is one."""
    import probclass_core as pc

    return pc.ModelStore(uri) if conn_id is None else ProbClassHook(conn_id).model_store(uri)


@contextmanager
def connected(connections: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Set Google's key in the environment, and remove secrets from the library's errors.

    Args:
        connections: ids of connections with the URIs that they are for.

    Raises:
        AirflowFailException: if a connection does not exist or does not fit, or if two have
            different Google keys.
    """
    import probclass_core as pc

    used = [
        ProbClassHook(conn_id).credentials(pc.TableRef.parse(uri).uri)
        for conn_id, uri in connections
    ]
    try:
        with _google_key(used):
            yield
    except pc.ProbClassError as error:
        message = str(error)
        for credentials in used:
            for secret in credentials.secrets:
                message = message.replace(secret, "***")
        if message == str(error):
            raise
        raise type(error)(message) from None


@contextmanager
def _google_key(used: Iterable[Credentials]) -> Iterator[None]:
    """Set the environment variable from which Google's client takes its key."""
    keys = [credentials.key_file for credentials in used if credentials.key_file is not None]
    if not keys:
        yield
        return
    if any(key != keys[0] for key in keys):
        raise AirflowFailException(
            "two connections have different Google keys, and a task can use only one."
        )
    # The environment is that of the process, in which several threads may read tables.
    with _GOOGLE_KEY_LOCK, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        before = os.environ.get(_GOOGLE_KEY)
        if not isinstance(keys[0], str):
            json.dump(keys[0], file)
            file.flush()
        os.environ[_GOOGLE_KEY] = keys[0] if isinstance(keys[0], str) else file.name
        try:
            yield
        finally:
            del os.environ[_GOOGLE_KEY]
            if before is not None:
                os.environ[_GOOGLE_KEY] = before
