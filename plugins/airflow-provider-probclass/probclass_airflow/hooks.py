"""Credentials of tables and model stores by the id of an Airflow connection.

`ProbClassHook` reads a connection of our own type, or of the types of the common providers, none of
which has to be installed. Operators take such ids as ``source_conn_id``, ``sink_conn_id`` and
``store_conn_id``. What a connection holds goes to the library as options of a `TableRef` or a
`ModelStore`, which are never shown or recorded, and Airflow is told to mask it in logs.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from probclass_airflow.credentials import Credentials, credentials_of, storage_options

if TYPE_CHECKING:
    from probclass_core import ModelStore, TableRef

_GOOGLE_KEY = "GOOGLE_APPLICATION_CREDENTIALS"


class ProbClassHook(BaseHook):
    """A connection that opens a table or a model store.

    Args:
        probclass_conn_id: of a connection of type ``probclass``, ``aws``, ``wasb``, ``adls``,
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
        """The connection; there is nothing to open before a place is named."""
        return self._connection()

    def table(self, uri: str) -> TableRef:
        """The reference to a table, with the options that open it.

        Raises:
            AirflowFailException: there is no such connection, or it does not fit the table.
        """
        import probclass_core as pc

        ref = pc.TableRef.parse(uri)
        return replace(ref, options={**self._options(ref.uri, ref.format), **ref.options})

    def model_store(self, uri: str) -> ModelStore:
        """The model store at a place.

        Raises:
            AirflowFailException: there is no such connection, or it does not fit the store.
            StoreError: the store cannot be opened.
        """
        import probclass_core as pc

        return pc.ModelStore(uri, options=self._options(uri, None))

    def credentials(self, uri: str) -> Credentials:
        """What the connection holds for a place, its secrets masked in logs from now on.

        Raises:
            AirflowFailException: there is no such connection, or it does not fit the place.
        """
        try:
            found = credentials_of(self._connection(), uri)
        except ValueError as error:
            raise AirflowFailException(f"connection {self.conn_id!r} {error}") from None
        for secret in found.secrets:
            mask_secret(secret)
        return found

    def test_connection(self) -> tuple[bool, str]:
        """Look at the place that the connection names as ``place``; Airflow's form calls this."""
        import probclass_core as pc

        place = self._connection().extra_dejson.get("place")
        if not place:
            return False, "name a table or folder to look at in the field 'place'."
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
        found = self.credentials(uri)
        try:
            return storage_options(found, uri, table_format)
        except ValueError as error:
            raise AirflowFailException(f"connection {self.conn_id!r} {error}") from None

    def _connection(self) -> Any:
        try:
            return self.get_connection(self.conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"there is no connection {self.conn_id!r}; make it, or name another."
            ) from None


def table_at(uri: str, conn_id: str | None) -> TableRef | str:
    """What an operator hands to the library for a table; the URI itself without a connection."""
    return uri if conn_id is None else ProbClassHook(conn_id).table(uri)


def store_at(uri: str, conn_id: str | None) -> ModelStore:
    """The model store of an operator."""
    import probclass_core as pc

    return pc.ModelStore(uri) if conn_id is None else ProbClassHook(conn_id).model_store(uri)


@contextmanager
def connected(places: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Around the use of connections: Google's key in the environment, no secret in an error.

    Args:
        places: ids of connections, and URIs that they are for.

    Raises:
        AirflowFailException: a connection is not there or does not fit, or two hold different
            Google keys.
    """
    import probclass_core as pc

    used = [
        ProbClassHook(conn_id).credentials(pc.TableRef.parse(uri).uri) for conn_id, uri in places
    ]
    try:
        with _google_key(used):
            yield
    except pc.ProbClassError as error:
        shown = str(error)
        for secret in (secret for found in used for secret in found.secrets):
            shown = shown.replace(secret, "***")
        if shown == str(error):
            raise
        raise type(error)(shown) from None


@contextmanager
def _google_key(used: Iterable[Credentials]) -> Iterator[None]:
    """Where Google's client looks for a key, which it takes in no other way."""
    keys = [found.key_file for found in used if found.key_file is not None]
    if not keys:
        yield
        return
    if any(key != keys[0] for key in keys):
        raise AirflowFailException("one task uses one Google key; two connections hold two.")
    before = os.environ.get(_GOOGLE_KEY)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
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
