"""Options of object stores, by the names of obstore, for every library that opens one.

A `TableRef` and a `ModelStore` take the options of `SERVICES`, whichever library opens them; only
this module knows what pyarrow, deltalake and pyiceberg call them. Values may be texts, as in the
query of a URI. Options of other locations are those of the library: properties of a catalog of
Iceberg, arguments of a file system of fsspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from probclass_core.errors import nearest, one_of
from probclass_core.io.failures import REQUEST_SECONDS

Library: TypeAlias = Literal["pyarrow", "deltalake", "pyiceberg"]


class Option(NamedTuple):
    """An option of an object store, with its name in each library, "" if the library has none."""

    name: str
    pyarrow: str
    deltalake: str
    pyiceberg: str
    kind: type = str


_REQUESTS = (
    Option("timeout", "", "timeout", "", float),
    Option("connect_timeout", "", "connect_timeout", "", float),
    Option("proxy_url", "", "proxy_url", ""),
)

# fmt: off
SERVICES: Mapping[str, tuple[Option, ...]] = {
    "S3": (
        Option("access_key_id", "access_key", "aws_access_key_id", "s3.access-key-id"),
        Option("secret_access_key", "secret_key", "aws_secret_access_key", "s3.secret-access-key"),
        Option("session_token", "session_token", "aws_session_token", "s3.session-token"),
        Option("region", "region", "aws_region", "s3.region"),
        Option("endpoint", "endpoint_override", "aws_endpoint_url", "s3.endpoint"),
        Option("skip_signature", "anonymous", "aws_skip_signature", "s3.anonymous", bool),
        Option("virtual_hosted_style_request", "force_virtual_addressing",
               "aws_virtual_hosted_style_request", "s3.force-virtual-addressing", bool),
        Option("role_arn", "role_arn", "aws_iam_role_arn", "s3.role-arn"),
        Option("role_session_name", "session_name", "aws_iam_role_session_name",
               "s3.role-session-name"),
        Option("external_id", "external_id", "", ""),
        Option("timeout", "request_timeout", "timeout", "s3.request-timeout", float),
        Option("connect_timeout", "connect_timeout", "connect_timeout", "s3.connect-timeout",
               float),
        Option("proxy_url", "proxy_options", "proxy_url", "s3.proxy-uri"),
        Option("root_certificate", "tls_ca_file_path", "", ""),
    ),
    "Azure": (
        Option("account_name", "account_name", "azure_storage_account_name", "adls.account-name"),
        Option("account_key", "account_key", "azure_storage_account_key", "adls.account-key"),
        Option("sas_key", "sas_token", "azure_storage_sas_key", "adls.sas-token"),
        Option("tenant_id", "tenant_id", "azure_storage_tenant_id", "adls.tenant-id"),
        Option("client_id", "client_id", "azure_storage_client_id", "adls.client-id"),
        Option("client_secret", "client_secret", "azure_storage_client_secret",
               "adls.client-secret"),
        Option("endpoint", "{}_storage_{}", "azure_storage_endpoint", "adls.{}-storage-{}"),
        *_REQUESTS,
    ),
    "Google Cloud Storage": (
        Option("base_url", "endpoint_override", "google_base_url", "gcs.service.host"),
        Option("skip_signature", "anonymous", "google_skip_signature", "", bool),
        Option("service_account", "", "google_service_account", ""),
        Option("service_account_key", "", "google_service_account_key", ""),
        *_REQUESTS,
    ),
}
# fmt: on

SERVICE_OF = {
    "s3": "S3",
    "s3a": "S3",
    "gs": "Google Cloud Storage",
    "gcs": "Google Cloud Storage",
    "abfs": "Azure",
    "abfss": "Azure",
    "az": "Azure",
}
"""The object store that a scheme of URIs belongs to."""


def read_options(service: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an object store with their values as text, bool or seconds.

    Raises:
        ValueError: if the store has no such option, or a value is not of its kind.
    """
    known = {option.name: option for option in SERVICES[service]}
    for name in options:
        if name not in known:
            raise ValueError(
                f"{service} has no option {name!r}.{nearest(name, known)} "
                f"Its options are {one_of(known)}"
            )
    return {
        name: _value(known[name], value) for name, value in options.items() if value is not None
    }


def pyarrow_options(service: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a file system of pyarrow for options of an object store.

    Raises:
        ValueError: as `read_options`, or if pyarrow has no such option.
    """
    translated = _translate(service, options, "pyarrow")
    if service == "Google Cloud Storage" and "endpoint_override" in translated:
        parts = urlsplit(translated["endpoint_override"])
        translated |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return translated


def deltalake_options(uri: str, options: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the storage options of delta-rs for the options of a table.

    Raises:
        ValueError: as `read_options`, or if delta-rs has no such option.
    """
    if "://" not in uri and options:
        raise ValueError("a local path takes no options; leave them out")
    service = SERVICE_OF.get(uri.partition("://")[0])
    if service is None:
        return {name: _text(value) for name, value in options.items()} or None
    texts = _texts(_translate(service, options, "deltalake"), options)
    return {"retry_timeout": f"{REQUEST_SECONDS}s", **texts}


NOT_IN_CONFIG = frozenset({"root_certificate", "role_arn", "role_session_name", "external_id"})
"""Options that obstore takes as arguments of their own, or its sources of credentials do."""


def obstore_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration of obstore for options that `read_options` returned."""
    names = options.keys() - NOT_IN_CONFIG
    return _texts({name: options[name] for name in names}, options)


def _texts(values: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    """The values as the object stores of Rust take them; without TLS if the options say so."""
    texts = {name: _text(value, milliseconds=True) for name, value in values.items()}
    endpoint = options.get("endpoint") or options.get("base_url")
    return {**texts, "allow_http": str(str(endpoint).startswith("http://")).lower()}


def pyiceberg_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a catalog; those of the object store of its files are translated.

    Raises:
        ValueError: as `read_options`, or if pyiceberg has no such option.
    """
    names = {service: {option.name for option in known} for service, known in SERVICES.items()}
    storage = {name: options[name] for name in options if name in set().union(*names.values())}
    service = max(SERVICES, key=lambda service: len(names[service] & storage.keys()))
    properties = {name: value for name, value in options.items() if name not in storage}
    properties |= _translate(service, storage, "pyiceberg")
    return {name: _text(value) for name, value in properties.items()}


def _translate(service: str, options: Mapping[str, Any], library: Library) -> dict[str, Any]:
    values = read_options(service, options)
    translated: dict[str, Any] = {}
    for option in SERVICES[service]:
        if option.name not in values:
            continue
        name, value = getattr(option, library), values[option.name]
        if not name:
            raise ValueError(f"{library} has no option {option.name!r}; leave it out")
        if "{}" in name:
            translated |= _azure_endpoint(name, value, values.get("account_name", ""))
        else:
            translated[name] = value
    return translated


def _azure_endpoint(name: str, url: str, account: str) -> dict[str, str]:
    """The host and scheme of both services of a storage account, as pyarrow takes them."""
    parts = urlsplit(url)
    blob = parts.netloc.removeprefix(account)
    hosts = {"blob": blob, "dfs": blob.replace(".blob.", ".dfs.")}
    return {
        name.format(kind, what): value
        for kind, host in hosts.items()
        for what, value in {"authority": host, "scheme": parts.scheme}.items()
    }


def _value(option: Option, value: Any) -> Any:
    if option.kind is bool:
        if str(value).lower() not in ("true", "false"):
            raise ValueError(f"{option.name} is {value!r}; expected true or false")
        return str(value).lower() == "true"
    if option.kind is float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{option.name} is {value!r}; expected seconds") from None
    if option.name in ("endpoint", "base_url") and "://" not in str(value):
        raise ValueError(f"{option.name} is {value!r}; expected a URL, as http://localhost:9000")
    return str(value).lstrip("?") if option.name == "sas_key" else str(value)


def _text(value: Any, *, milliseconds: bool = False) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and milliseconds:
        return f"{round(1000 * value)}ms"
    return str(value)
