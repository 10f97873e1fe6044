"""What an Airflow connection holds, in the words of the library that reaches a table or a store.

A connection is read as the provider that defines its type reads it, and nothing of that provider is
needed. What it holds is first put into words of ours, then into those of pyarrow, delta-rs or
pyiceberg. Nothing here is shown, logged or recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

_PUBLIC_AZURE = ".blob.core.windows.net"


class ConnectionLike(Protocol):
    """What is read of a connection."""

    conn_id: str
    conn_type: str | None
    host: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Credentials:
    """What one connection holds.

    Attributes:
        store: ``s3``, ``azure``, ``google`` or ``catalog``; none where there are options alone.
        words: in our words, keys of `_WORDS`.
        options: in the words of the library, as they are.
        key_file: a Google key, as the path of its file or as what the file holds.
    """

    store: str | None
    words: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    key_file: str | Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def secrets(self) -> list[str]:
        """What must not be seen in a log."""
        kept = [value for name, value in self.words.items() if name in _SECRET]
        key = self.key_file.get("private_key") if isinstance(self.key_file, Mapping) else None
        return [str(value) for value in (*kept, *self.options.values(), key) if value]


def credentials_of(connection: ConnectionLike, uri: str) -> Credentials:
    """What a connection holds for a place.

    Args:
        connection: of one of `CONNECTION_TYPES`.
        uri: of a table or a model store, without the prefix of a format.

    Raises:
        ValueError: it holds no credentials, or none for such a place, or cannot be read.
    """
    known = _READERS.get(connection.conn_type or "")
    if known is None:
        raise ValueError(
            f"is of type {connection.conn_type!r}; use one of {', '.join(CONNECTION_TYPES)}."
        )
    place = _STORES.get(uri.partition("://")[0] if "://" in uri else "")
    found = known(connection, place)
    if found.store not in (None, place) and (place != "catalog" or found.store == "catalog"):
        raise ValueError(f"is of type {connection.conn_type!r}, which does not fit {uri}.")
    granted = any(found.words.get(name) for name in (*_SECRET, "role", "anonymous", "uri"))
    if not (granted or found.options or found.key_file):
        raise ValueError(
            f"holds no credentials: {_MENDS[connection.conn_type or '']}. To use those of the "
            "machine, name no connection."
        )
    return found


def storage_options(credentials: Credentials, uri: str, table_format: str | None) -> dict[str, Any]:
    """The options of a `TableRef` or a `ModelStore`.

    Args:
        credentials: of the place.
        uri: of the place, without the prefix of a format.
        table_format: of a table, where its URI names one.

    Raises:
        ValueError: the library has no words for what the connection holds.
    """
    library = "iceberg" if uri.startswith("iceberg://") else "arrow"
    if table_format == "delta":
        library = "delta"
    words = dict(credentials.words)
    told: dict[str, Any] = {}
    if credentials.store == "azure" and library != "delta":
        told |= _azure_authorities(words, library)
    if library == "delta" and str(words.get("endpoint", "")).startswith("http://"):
        told["allow_http"] = "true"
    if credentials.key_file is not None and library == "delta":
        path = isinstance(credentials.key_file, str)
        key = "google_service_account" if path else "google_service_account_key"
        told[key] = credentials.key_file if path else json.dumps(credentials.key_file)
    said = _WORDS[credentials.store, library] if words and credentials.store else {}
    for name, value in words.items():
        if name not in said:
            raise ValueError(f"gives {name!r}, which {_LIBRARIES[library]} does not take.")
        told[said[name]] = value if library == "arrow" else _text(value)
    return {**told, **credentials.options}


def _aws(connection: ConnectionLike, place: str | None) -> Credentials:
    extra = connection.extra_dejson
    if extra.get("profile_name"):
        raise ValueError("names a profile; give login and password, or a role_arn.")
    service = extra.get("service_config", {}).get("s3", {})
    assumed = extra.get("assume_role_kwargs", {})
    unsigned = extra.get("config_kwargs", {}).get("signature_version") == "unsigned"
    return Credentials(
        "s3",
        _given(
            access_key=connection.login or extra.get("aws_access_key_id"),
            secret_key=connection.password or extra.get("aws_secret_access_key"),
            session_token=extra.get("aws_session_token"),
            region=extra.get("region_name"),
            endpoint=service.get("endpoint_url") or extra.get("endpoint_url"),
            role=extra.get("role_arn"),
            role_session=assumed.get("RoleSessionName"),
            external_id=assumed.get("ExternalId"),
            anonymous=unsigned or None,
        ),
    )


def _wasb(connection: ConnectionLike, place: str | None) -> Credentials:
    extra = connection.extra_dejson
    if text := _field(connection, "connection_string"):
        return Credentials("azure", _connection_string(text))
    sas = _field(connection, "sas_token") or ""
    url, _, query = sas.partition("?") if "://" in sas else ("", "", sas)
    address = _account(connection.host or url, connection.login)
    if tenant := _field(connection, "tenant_id"):
        return Credentials("azure", {**address, **_principal(connection, tenant)})
    key = _field(connection, "shared_access_key") or extra.get("account_key")
    key = key or (None if query else connection.password)
    return Credentials("azure", {**address, **_given(key=key, sas=query.lstrip("?"))})


def _adls(connection: ConnectionLike, place: str | None) -> Credentials:
    if text := _field(connection, "connection_string"):
        return Credentials("azure", _connection_string(text))
    url = connection.extra_dejson.get("account_url", "").replace(".dfs.", ".blob.")
    address = _account(url, connection.host)
    if tenant := _field(connection, "tenant_id"):
        return Credentials("azure", {**address, **_principal(connection, tenant)})
    return Credentials("azure", {**address, **_given(key=connection.password)})


def _google(connection: ConnectionLike, place: str | None) -> Credentials:
    key = _field(connection, "keyfile_dict")
    words = _given(project=_field(connection, "project"))
    if _field(connection, "is_anonymous"):
        words["anonymous"] = True
    return Credentials(
        "google",
        words,
        key_file=(_parsed(key, "keyfile_dict") if key else None) or _field(connection, "key_path"),
    )


def _iceberg(connection: ConnectionLike, place: str | None) -> Credentials:
    words = _given(uri=connection.host, type=connection.extra_dejson.get("type", "rest"))
    if connection.login and connection.password:
        words["credential"] = f"{connection.login}:{connection.password}"
    return Credentials("catalog", words, connection.extra_dejson)


def _own(connection: ConnectionLike, place: str | None) -> Credentials:
    """By the place: login and password mean what they mean there."""
    extra = connection.extra_dejson
    if connection.conn_type == "generic":
        options = extra
    else:
        options = _parsed(extra.get("options") or {}, "options")
    login, password = connection.login, connection.password
    settings = {} if connection.conn_type == "generic" else extra
    endpoint = settings.get("endpoint")
    words: dict[str, Any] = {}
    if place == "s3":
        region = settings.get("region")
        words = _given(access_key=login, secret_key=password, region=region, endpoint=endpoint)
    elif place == "azure":
        words = {**_account(endpoint or "", login), **_given(key=password)}
    elif place == "catalog":
        words = _given(uri=connection.host or endpoint)
        if login and password:
            words["credential"] = f"{login}:{password}"
    return Credentials(place, words, options)


def _principal(connection: ConnectionLike, tenant: str) -> dict[str, Any]:
    return _given(tenant=tenant, client=connection.login, client_secret=connection.password)


def _account(url: str, name: str | None) -> dict[str, Any]:
    """A storage account by its URL or name; the URL itself where it is not the public cloud's."""
    if "://" not in url:
        return _given(account=url.partition(".")[0] or name)
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.endswith(_PUBLIC_AZURE):
        return _given(account=host.removesuffix(_PUBLIC_AZURE))
    in_path = parts.path.strip("/")  # as emulators have it
    account = in_path or (host.partition(".")[0] if ".blob." in host else name)
    return _given(account=account, endpoint=url.rstrip("/"))


def _connection_string(text: str) -> dict[str, Any]:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return {
        **_account(parts.get("BlobEndpoint", ""), parts.get("AccountName")),
        **_given(key=parts.get("AccountKey"), sas=parts.get("SharedAccessSignature")),
    }


def _azure_authorities(words: dict[str, Any], library: str) -> dict[str, Any]:
    """Takes the endpoint out of the words; pyarrow wants host and scheme of both services."""
    endpoint = words.pop("endpoint", None)
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint)
    blob = parts.netloc.removeprefix(str(words.get("account")))
    services = {"blob": blob, "dfs": blob.replace(".blob.", ".dfs.")}
    told = {f"{name}_storage_authority": authority for name, authority in services.items()}
    told |= {f"{name}_storage_scheme": parts.scheme for name in services}
    if library == "arrow":
        return told
    return {f"adls.{name.replace('_', '-')}": value for name, value in told.items()}


def _field(connection: ConnectionLike, name: str) -> Any:
    """Of the extra, under its name or the longer one that older forms gave it."""
    extra = connection.extra_dejson
    return extra.get(name) or extra.get(f"extra__{connection.conn_type}__{name}") or None


def _parsed(value: object, name: str) -> dict[str, Any]:
    """A JSON object; what it holds is not shown where it is none."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise ValueError(f"has {name!r} in its extra that is no JSON object.")
    return dict(found)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_STORES = {
    "s3": "s3",
    "gs": "google",
    "gcs": "google",
    "abfs": "azure",
    "abfss": "azure",
    "iceberg": "catalog",
}

_LIBRARIES = {"arrow": "pyarrow", "delta": "deltalake", "iceberg": "pyiceberg"}

_SECRET = ("secret_key", "session_token", "key", "sas", "client_secret", "credential")

_READERS = {
    "aws": _aws,
    "wasb": _wasb,
    "adls": _adls,
    "google_cloud_platform": _google,
    "iceberg": _iceberg,
    "generic": _own,
    "probclass": _own,
}

CONNECTION_TYPES = tuple(_READERS)
"""Those that are understood."""

_MENDS = {
    "aws": "give login and password, or a role_arn in its extra",
    "wasb": "give a password, or in its extra a connection_string, sas_token or tenant_id",
    "adls": "give a password, or a connection_string in its extra",
    "google_cloud_platform": "give a keyfile_dict or a key_path in its extra",
    "iceberg": "give the catalog's URI as its host",
    "generic": "give login and password, or storage options as its extra",
    "probclass": "give login and password, or options",
}

_WORDS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("s3", "arrow"): {
        "access_key": "access_key",
        "secret_key": "secret_key",
        "session_token": "session_token",
        "region": "region",
        "endpoint": "endpoint_override",
        "role": "role_arn",
        "role_session": "session_name",
        "external_id": "external_id",
        "anonymous": "anonymous",
    },
    ("s3", "delta"): {
        "access_key": "aws_access_key_id",
        "secret_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "region": "aws_region",
        "endpoint": "aws_endpoint_url",
        "role": "aws_iam_role_arn",
        "role_session": "aws_iam_role_session_name",
        "anonymous": "aws_skip_signature",
    },
    ("s3", "iceberg"): {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "s3.region",
        "endpoint": "s3.endpoint",
        "role": "s3.role-arn",
        "role_session": "s3.role-session-name",
        "anonymous": "s3.anonymous",
    },
    ("azure", "arrow"): {
        "account": "account_name",
        "key": "account_key",
        "sas": "sas_token",
        "tenant": "tenant_id",
        "client": "client_id",
        "client_secret": "client_secret",
    },
    ("azure", "delta"): {
        "account": "azure_storage_account_name",
        "key": "azure_storage_account_key",
        "sas": "azure_storage_sas_token",
        "tenant": "azure_storage_tenant_id",
        "client": "azure_storage_client_id",
        "client_secret": "azure_storage_client_secret",
        "endpoint": "azure_storage_endpoint",
    },
    ("azure", "iceberg"): {
        "account": "adls.account-name",
        "key": "adls.account-key",
        "sas": "adls.sas-token",
        "tenant": "adls.tenant-id",
        "client": "adls.client-id",
        "client_secret": "adls.client-secret",
    },
    ("google", "arrow"): {
        "project": "project_id",
        "anonymous": "anonymous",
    },
    ("google", "delta"): {"anonymous": "google_skip_signature"},
    ("google", "iceberg"): {"project": "gcs.project-id"},
    ("catalog", "iceberg"): {"uri": "uri", "type": "type", "credential": "credential"},
}
