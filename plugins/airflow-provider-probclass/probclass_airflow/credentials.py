"""Credentials of an Airflow connection as options of a table or a model store.

A connection is read in the same way as by the provider that defines its type, which need not be
installed. Nothing here is shown, logged or recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

_PUBLIC_AZURE = ".blob.core.windows.net"


class AirflowConnection(Protocol):
    """The attributes of a connection that are read."""

    conn_id: str
    conn_type: str | None
    host: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Credentials:
    """The credentials of one connection.

    Attributes:
        service: ``S3``, ``Azure``, ``Google`` or ``Iceberg``, or None if there are only options.
        settings: options made of the fields of the connection.
        options: options in its extra, all of which are masked.
        key_file: a Google key, as the path of its file or as its content.
    """

    service: str | None
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    key_file: str | Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def secrets(self) -> list[str]:
        """The values to mask in logs."""
        secret = [value for name, value in self.settings.items() if name in _SECRETS]
        key = self.key_file.get("private_key") if isinstance(self.key_file, Mapping) else None
        return [str(value) for value in (*secret, *self.options.values(), key) if value]


def read_credentials(connection: AirflowConnection, uri: str) -> Credentials:
    """Read the credentials of a connection for a URI.

    Args:
        connection: a connection of one of `CONNECTION_TYPES`.
        uri: URI of a table or a model store, without the prefix of a format.

    Raises:
        ValueError: if the connection has no credentials, or none for the URI, or is malformed.
    """
    read = _READERS.get(connection.conn_type or "")
    if read is None:
        raise ValueError(
            f"is of type {connection.conn_type!r}; use one of {', '.join(CONNECTION_TYPES)}."
        )
    service = _SERVICES.get(uri.partition("://")[0])
    credentials = read(connection, service)
    if credentials.service not in (None, service) and service != "Iceberg":
        raise ValueError(f"is of type {connection.conn_type!r}, which does not fit {uri}.")
    sufficient = (*_SECRETS, "role_arn", "skip_signature", "uri")
    has_settings = any(credentials.settings.get(name) for name in sufficient)
    if not (has_settings or credentials.options or credentials.key_file):
        raise ValueError(
            f"has no credentials: {_FIXES[connection.conn_type or '']}. To use the credentials of "
            "the machine, leave the connection out."
        )
    return credentials


def storage_options(credentials: Credentials, table_format: str | None) -> dict[str, Any]:
    """The options of a `TableRef` or a `ModelStore`.

    Args:
        credentials: the credentials for its URI.
        table_format: the format that the URI of a table names, or None.
    """
    options = {**credentials.settings, **credentials.options}
    if credentials.key_file is not None and table_format == "delta":
        is_path = isinstance(credentials.key_file, str)
        key = "service_account" if is_path else "service_account_key"
        options[key] = credentials.key_file if is_path else json.dumps(credentials.key_file)
    return options


def _aws(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    if extra.get("profile_name"):
        raise ValueError("names a profile; give login and password, or a role_arn.")
    s3 = extra.get("service_config", {}).get("s3", {})
    assumed = extra.get("assume_role_kwargs", {})
    unsigned = extra.get("config_kwargs", {}).get("signature_version") == "unsigned"
    return Credentials(
        "S3",
        _non_empty(
            access_key_id=connection.login or extra.get("aws_access_key_id"),
            secret_access_key=connection.password or extra.get("aws_secret_access_key"),
            session_token=extra.get("aws_session_token"),
            region=extra.get("region_name"),
            endpoint=s3.get("endpoint_url") or extra.get("endpoint_url"),
            role_arn=extra.get("role_arn"),
            role_session_name=assumed.get("RoleSessionName"),
            external_id=assumed.get("ExternalId"),
            skip_signature=unsigned or None,
        ),
    )


def _wasb(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    if text := extra.get("connection_string"):
        return Credentials("Azure", _connection_string(text))
    sas = extra.get("sas_token") or ""
    url, _, query = sas.partition("?") if "://" in sas else ("", "", sas)
    account = _account(connection.host or url, connection.login)
    if tenant := extra.get("tenant_id"):
        return Credentials("Azure", {**account, **_principal(connection, tenant)})
    key = extra.get("shared_access_key") or extra.get("account_key")
    key = key or (None if query else connection.password)
    return Credentials("Azure", {**account, **_non_empty(account_key=key, sas_key=query)})


def _adls(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    if text := extra.get("connection_string"):
        return Credentials("Azure", _connection_string(text))
    url = extra.get("account_url", "").replace(".dfs.", ".blob.")
    account = _account(url, connection.host)
    if tenant := extra.get("tenant_id"):
        return Credentials("Azure", {**account, **_principal(connection, tenant)})
    return Credentials("Azure", {**account, **_non_empty(account_key=connection.password)})


def _google(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    key = extra.get("keyfile_dict")
    return Credentials(
        "Google",
        {"skip_signature": True} if extra.get("is_anonymous") else {},
        key_file=_json_object(key, "keyfile_dict") if key else extra.get("key_path") or None,
    )


def _iceberg(connection: AirflowConnection, service: str | None) -> Credentials:
    settings = _non_empty(uri=connection.host, type=connection.extra_dejson.get("type", "rest"))
    if connection.login and connection.password:
        settings["credential"] = f"{connection.login}:{connection.password}"
    return Credentials("Iceberg", settings, connection.extra_dejson)


def _probclass(connection: AirflowConnection, service: str | None) -> Credentials:
    """The service of the URI decides what login and password mean."""
    extra = connection.extra_dejson
    if connection.conn_type == "generic":
        options, extra = extra, {}
    else:
        options = _json_object(extra.get("options") or {}, "options")
    login, password, endpoint = connection.login, connection.password, extra.get("endpoint")
    settings: dict[str, Any] = {}
    if service == "S3":
        settings = _non_empty(
            access_key_id=login,
            secret_access_key=password,
            region=extra.get("region"),
            endpoint=endpoint,
        )
    elif service == "Azure":
        settings = {**_account(endpoint or "", login), **_non_empty(account_key=password)}
    elif service == "Iceberg":
        settings = _non_empty(uri=connection.host or endpoint)
        if login and password:
            settings["credential"] = f"{login}:{password}"
    return Credentials(service, settings, options)


def _principal(connection: AirflowConnection, tenant: str) -> dict[str, Any]:
    return _non_empty(
        tenant_id=tenant, client_id=connection.login, client_secret=connection.password
    )


def _account(url: str, name: str | None) -> dict[str, Any]:
    """A storage account from its URL or name, with an endpoint unless it is the public cloud's."""
    if "://" not in url:
        return _non_empty(account_name=url.partition(".")[0] or name)
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.endswith(_PUBLIC_AZURE):
        return _non_empty(account_name=host.removesuffix(_PUBLIC_AZURE))
    in_path = parts.path.strip("/")  # the form of emulators
    account = in_path or (host.partition(".")[0] if ".blob." in host else name)
    return _non_empty(account_name=account, endpoint=url.rstrip("/"))


def _connection_string(text: str) -> dict[str, Any]:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return {
        **_account(parts.get("BlobEndpoint", ""), parts.get("AccountName")),
        **_non_empty(
            account_key=parts.get("AccountKey"), sas_key=parts.get("SharedAccessSignature")
        ),
    }


def _json_object(value: object, name: str) -> dict[str, Any]:
    """A JSON object; an error does not show the value, which may be secret."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        parsed = None
    if not isinstance(parsed, Mapping):
        raise ValueError(f"has a value of {name!r} in its extra that is not a JSON object.")
    return dict(parsed)


def _non_empty(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


_SERVICES = {
    "s3": "S3",
    "s3a": "S3",
    "gs": "Google",
    "gcs": "Google",
    "abfs": "Azure",
    "abfss": "Azure",
    "az": "Azure",
    "iceberg": "Iceberg",
}

_SECRETS = (
    *("secret_access_key", "session_token"),
    *("account_key", "sas_key", "client_secret"),
    "credential",
)

_READERS = {
    "aws": _aws,
    "wasb": _wasb,
    "adls": _adls,
    "google_cloud_platform": _google,
    "iceberg": _iceberg,
    "generic": _probclass,
    "probclass": _probclass,
}

CONNECTION_TYPES = tuple(_READERS)
"""The types of connections that can be read."""

_FIXES = {
    "aws": "give login and password, or a role_arn in its extra",
    "wasb": "give a password, or in its extra a connection_string, sas_token or tenant_id",
    "adls": "give a password, or a connection_string in its extra",
    "google_cloud_platform": "give a keyfile_dict or a key_path in its extra",
    "iceberg": "give the URI of the catalog as its host",
    "generic": "give login and password, or storage options as its extra",
    "probclass": "give login and password, or options",
}
