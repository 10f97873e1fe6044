"""Credentials of an Airflow connection as options of the library that reads a table or a store.

A connection is read in the same way as by the provider that defines its type, which need not be
installed. Its values are first read into settings with common names, then translated into options
of pyarrow, delta-rs or pyiceberg. Nothing here is shown, logged or recorded.
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
        service: ``s3``, ``azure``, ``google`` or ``catalog``, or None if there are only options.
        settings: values by common name, the keys of `_OPTION_NAMES`.
        options: options of the library, passed on unchanged.
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
    service = _SERVICES.get(uri.partition("://")[0] if "://" in uri else "")
    credentials = read(connection, service)
    if credentials.service not in (None, service) and (
        service != "catalog" or credentials.service == "catalog"
    ):
        raise ValueError(f"is of type {connection.conn_type!r}, which does not fit {uri}.")
    sufficient = (*_SECRETS, "role", "anonymous", "uri")
    has_settings = any(credentials.settings.get(name) for name in sufficient)
    if not (has_settings or credentials.options or credentials.key_file):
        raise ValueError(
            f"has no credentials: {_FIXES[connection.conn_type or '']}. To use the credentials of "
            "the machine, leave the connection out."
        )
    return credentials


def storage_options(credentials: Credentials, uri: str, table_format: str | None) -> dict[str, Any]:
    """The options of a `TableRef` or a `ModelStore`.

    Args:
        credentials: the credentials for the URI.
        uri: the URI, without the prefix of a format.
        table_format: the format that the URI of a table names, or None.

    Raises:
        ValueError: if the library has no option for one of the settings.
    """
    library = "iceberg" if uri.startswith("iceberg://") else "arrow"
    if table_format == "delta":
        library = "delta"
    settings = dict(credentials.settings)
    options: dict[str, Any] = {}
    if credentials.service == "azure" and library != "delta":
        options |= _pop_azure_endpoint(settings, library)
    if library == "delta" and str(settings.get("endpoint", "")).startswith("http://"):
        options["allow_http"] = "true"
    if credentials.key_file is not None and library == "delta":
        is_path = isinstance(credentials.key_file, str)
        key = "google_service_account" if is_path else "google_service_account_key"
        options[key] = credentials.key_file if is_path else json.dumps(credentials.key_file)
    names = _OPTION_NAMES[credentials.service, library] if settings and credentials.service else {}
    for name, value in settings.items():
        if name not in names:
            raise ValueError(f"has {name!r}, for which {_LIBRARIES[library]} has no option.")
        options[names[name]] = value if library == "arrow" else _text(value)
    return {**options, **credentials.options}


def _aws(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    if extra.get("profile_name"):
        raise ValueError("names a profile; give login and password, or a role_arn.")
    s3 = extra.get("service_config", {}).get("s3", {})
    assumed = extra.get("assume_role_kwargs", {})
    unsigned = extra.get("config_kwargs", {}).get("signature_version") == "unsigned"
    return Credentials(
        "s3",
        _non_empty(
            access_key=connection.login or extra.get("aws_access_key_id"),
            secret_key=connection.password or extra.get("aws_secret_access_key"),
            session_token=extra.get("aws_session_token"),
            region=extra.get("region_name"),
            endpoint=s3.get("endpoint_url") or extra.get("endpoint_url"),
            role=extra.get("role_arn"),
            role_session=assumed.get("RoleSessionName"),
            external_id=assumed.get("ExternalId"),
            anonymous=unsigned or None,
        ),
    )


def _wasb(connection: AirflowConnection, service: str | None) -> Credentials:
    extra = connection.extra_dejson
    if text := _extra(connection, "connection_string"):
        return Credentials("azure", _connection_string(text))
    sas = _extra(connection, "sas_token") or ""
    url, _, query = sas.partition("?") if "://" in sas else ("", "", sas)
    account = _account(connection.host or url, connection.login)
    if tenant := _extra(connection, "tenant_id"):
        return Credentials("azure", {**account, **_principal(connection, tenant)})
    key = _extra(connection, "shared_access_key") or extra.get("account_key")
    key = key or (None if query else connection.password)
    return Credentials("azure", {**account, **_non_empty(key=key, sas=query.lstrip("?"))})


def _adls(connection: AirflowConnection, service: str | None) -> Credentials:
    if text := _extra(connection, "connection_string"):
        return Credentials("azure", _connection_string(text))
    url = connection.extra_dejson.get("account_url", "").replace(".dfs.", ".blob.")
    account = _account(url, connection.host)
    if tenant := _extra(connection, "tenant_id"):
        return Credentials("azure", {**account, **_principal(connection, tenant)})
    return Credentials("azure", {**account, **_non_empty(key=connection.password)})


def _google(connection: AirflowConnection, service: str | None) -> Credentials:
    key = _extra(connection, "keyfile_dict")
    settings = _non_empty(project=_extra(connection, "project"))
    if _extra(connection, "is_anonymous"):
        settings["anonymous"] = True
    key_file = _json_object(key, "keyfile_dict") if key else None
    return Credentials("google", settings, key_file=key_file or _extra(connection, "key_path"))


def _iceberg(connection: AirflowConnection, service: str | None) -> Credentials:
    settings = _non_empty(uri=connection.host, type=connection.extra_dejson.get("type", "rest"))
    if connection.login and connection.password:
        settings["credential"] = f"{connection.login}:{connection.password}"
    return Credentials("catalog", settings, connection.extra_dejson)


def _probclass(connection: AirflowConnection, service: str | None) -> Credentials:
    """The service of the URI decides what login and password mean."""
    extra = connection.extra_dejson
    if connection.conn_type == "generic":
        options, extra = extra, {}
    else:
        options = _json_object(extra.get("options") or {}, "options")
    login, password, endpoint = connection.login, connection.password, extra.get("endpoint")
    settings: dict[str, Any] = {}
    if service == "s3":
        region = extra.get("region")
        settings = _non_empty(
            access_key=login, secret_key=password, region=region, endpoint=endpoint
        )
    elif service == "azure":
        settings = {**_account(endpoint or "", login), **_non_empty(key=password)}
    elif service == "catalog":
        settings = _non_empty(uri=connection.host or endpoint)
        if login and password:
            settings["credential"] = f"{login}:{password}"
    return Credentials(service, settings, options)


def _principal(connection: AirflowConnection, tenant: str) -> dict[str, Any]:
    return _non_empty(tenant=tenant, client=connection.login, client_secret=connection.password)


def _account(url: str, name: str | None) -> dict[str, Any]:
    """A storage account from its URL or name, with an endpoint unless it is the public cloud's."""
    if "://" not in url:
        return _non_empty(account=url.partition(".")[0] or name)
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.endswith(_PUBLIC_AZURE):
        return _non_empty(account=host.removesuffix(_PUBLIC_AZURE))
    in_path = parts.path.strip("/")  # the form of emulators
    account = in_path or (host.partition(".")[0] if ".blob." in host else name)
    return _non_empty(account=account, endpoint=url.rstrip("/"))


def _connection_string(text: str) -> dict[str, Any]:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return {
        **_account(parts.get("BlobEndpoint", ""), parts.get("AccountName")),
        **_non_empty(key=parts.get("AccountKey"), sas=parts.get("SharedAccessSignature")),
    }


def _pop_azure_endpoint(settings: dict[str, Any], library: str) -> dict[str, Any]:
    """Remove the endpoint from the settings; pyarrow takes host and scheme of both services."""
    endpoint = settings.pop("endpoint", None)
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint)
    blob = parts.netloc.removeprefix(str(settings.get("account")))
    hosts = {"blob": blob, "dfs": blob.replace(".blob.", ".dfs.")}
    options = {f"{name}_storage_authority": host for name, host in hosts.items()}
    options |= {f"{name}_storage_scheme": parts.scheme for name in hosts}
    if library == "arrow":
        return options
    return {f"adls.{name.replace('_', '-')}": value for name, value in options.items()}


def _extra(connection: AirflowConnection, name: str) -> Any:
    """A value of the extra, by its name or by the longer name that older forms used."""
    extra = connection.extra_dejson
    return extra.get(name) or extra.get(f"extra__{connection.conn_type}__{name}") or None


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


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_SERVICES = {
    "s3": "s3",
    "gs": "google",
    "gcs": "google",
    "abfs": "azure",
    "abfss": "azure",
    "iceberg": "catalog",
}

_LIBRARIES = {"arrow": "pyarrow", "delta": "deltalake", "iceberg": "pyiceberg"}

_SECRETS = ("secret_key", "session_token", "key", "sas", "client_secret", "credential")

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

_OPTION_NAMES: Mapping[tuple[str, str], Mapping[str, str]] = {
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
