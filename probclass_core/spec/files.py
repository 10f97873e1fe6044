"""TOML, JSON and YAML files as plain values: model specs, costs, watches, projects.

Files may come from others, so size, depth and number of values are bounded, and a key that is given
twice is an error in all three formats.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from probclass_core.errors import SpecError, one_line

_MOST_BYTES = 1 << 20
_LONGEST = 1_000
"""Most characters of a number or date of YAML."""

_DEEPEST = 64
"""Most levels of lists and tables in each other."""


def read_values(path: Path, what: str, suffixes: Sequence[str] = (".toml", ".json")) -> Any:
    """Read a file as plain values.

    Args:
        path: the file.
        what: what it contains, for messages, such as ``"the model spec"``.
        suffixes: formats that are read, by the ends of names.

    Raises:
        SpecError: if the file cannot be read, is not of one of the formats or is not valid, or is
            larger or deeper than such files are.
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        expected = " or ".join([", ".join(suffixes[:-1]), suffixes[-1]])
        raise SpecError(f"cannot read {what} {path}: expected a {expected} file.")
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SpecError(f"cannot read {what} {path}: {error.strerror}.") from error
    if len(data) > _MOST_BYTES:
        raise SpecError(f"{path} has more than {_MOST_BYTES:,} bytes; is it {what}?")
    kind = "YAML" if suffix == ".yml" else suffix[1:].upper()
    try:
        values = _PARSERS[kind](data.decode())
        check_depth(values)
    except RecursionError:
        raise SpecError(f"{path} is not valid {kind}: {_TOO_DEEP}.") from None
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{path} is not valid {kind}: {one_line(error)}.") from error
    return values


_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY}(?:\.[ \t]*+{_KEY}){{{_DEEPEST},}}")
"""A key of TOML such as ``a.b.c``, with too many parts."""

_CONTAINERS = frozenset({dict, list})
_TOO_DEEP = f"lists and tables are nested more than {_DEEPEST} deep"


def check_depth(values: Any) -> None:
    """Raise ValueError if lists and tables are nested too deep for functions that recurse."""
    level: list[Any] = [[values]]
    for _ in range(_DEEPEST + 2):
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) in _CONTAINERS
        ]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _parse_json(text: str) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_keys(name for name, _ in pairs)
        return dict(pairs)

    return json.loads(text, object_pairs_hook=table)


def _check_keys(names: Iterable[str]) -> None:
    """Raise ValueError if a key of a table is given twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"key {name!r} is given twice")
        seen.add(name)


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise SpecError("a YAML file needs PyYAML: pip install 'probclass[yaml]'.") from error

    class Loader(yaml.SafeLoader):
        """A loader without aliases, with which a short file can have any number of values."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases (*name) are not supported; write the value out")
            node = super().compose_node(parent, index)
            is_text = getattr(node, "tag", "") == "tag:yaml.org,2002:str"
            if isinstance(node, yaml.ScalarNode) and len(node.value) > _LONGEST and not is_text:
                # YAML has numbers such as 1:30:00, which take time quadratic in their length.
                raise ValueError(f"a value that is not text has more than {_LONGEST:,} characters")
            if isinstance(node, yaml.MappingNode):
                _check_keys(key.value for key, _ in node.value if isinstance(key.value, str))
            return node

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _parse_toml(text: str) -> Any:
    # The parser of Python takes time quadratic in the number of parts of a key.
    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    return tomllib.loads(text)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "TOML": _parse_toml,
    "JSON": _parse_json,
    "YAML": _parse_yaml,
}
