"""Features computed from a column: ``hour(pickup)`` of times, ``number(age)`` of text.

A feature of a model is a column of the table or, if no column has its name, a part of a column: of
dates or times, or the number that a text is. `select` is where batches become features; it computes
the parts. Readers ask `source_columns` for the columns to read, and `feature_schema` has the types
of features.

The fields of that schema also record the time zone of the training (`time_zones`): rows to score
may have their instants in another zone, as tables of some formats have all of theirs in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import check_columns
from probclass_core.arrow.types import canonical_schema, is_number_type, is_text_type, value_type
from probclass_core.errors import DataError, SpecError, check_known, nearest, one_of

_DATE_PARTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "day_of_year": pc.day_of_year,
    "weekday": partial(pc.day_of_week, count_from_zero=False, week_start=1),
}

_TIME_PARTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "hour": pc.hour,
    "minute": pc.minute,
    "time_of_day": lambda values: _hours(values),
}

PARTS = (*_DATE_PARTS, *_TIME_PARTS)
"""Names of all parts of dates and times."""

NUMBER = "number"
"""Name of the part of a text that is its number, and null if the text is not a number."""

NUMBER_PATTERN = "^-?((0|[1-9][0-9]{0,14})([.][0-9]{0,30})?|[.][0-9]{1,30})([eE][+-]?[0-9]{1,2})?$"
"""Texts that are numbers, for every engine of regular expressions: no codes with leading zeros, and
no whole numbers that float64 cannot tell apart."""

_ZONE = b"time_zone"
"""Key of the metadata of a feature: the time zone of its column, empty for local times."""

TimeZones = Mapping[str, str | None]
"""Time zone by feature, None for times without one; parts of dates and of times are left out."""

_PART = re.compile(r"(\w+)\((.+)\)", re.DOTALL)

_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days 0001-01-01 and 9999-12-31, counted from 1970-01-01. Arrow's years wrap at 32,767."""


@dataclass(frozen=True)
class Part:
    """A part of a column.

    Attributes:
        name: one of `PARTS`, or `NUMBER`.
        column: name of the column.
    """

    name: str
    column: str

    def __str__(self) -> str:
        return f"{self.name}({self.column})"

    @property
    def type(self) -> pa.DataType:
        """int64, or float64 for ``time_of_day`` and ``number``."""
        return pa.float64() if self.name in ("time_of_day", NUMBER) else pa.int64()


def part_of(feature: str) -> Part | None:
    """The part of a column that a feature's name means, or None if it is not such a name."""
    match = _PART.fullmatch(feature)
    return Part(*match.groups()) if match and match[1] in (*PARTS, NUMBER) else None


def text_source(feature: str) -> str | None:
    """The column whose texts a feature reads as numbers, or None if it is another feature."""
    part = part_of(feature)
    return part.column if part is not None and part.name == NUMBER else None


def is_date_part(feature: str) -> bool:
    """Whether a feature is a part of a date, such as ``month(pickup)``, not of the time of day."""
    part = part_of(feature)
    return part is not None and part.name in _DATE_PARTS


def parts_of_type(kind: pa.DataType) -> tuple[str, ...]:
    """Names of the parts that values of a type have; none if they are not dates or times."""
    kind = value_type(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return PARTS
    if pa.types.is_date(kind):
        return tuple(_DATE_PARTS)
    return tuple(_TIME_PARTS) if pa.types.is_time(kind) else ()


def source_columns(schema: pa.Schema, features: Sequence[str]) -> list[str]:
    """The columns of a table that features are made of, each once.

    Raises:
        DataError: if a column is missing, or the table has it twice.
        SpecError: if a feature is a part that its column does not have.
    """
    parts = _parts_among(schema, features)
    return list(dict.fromkeys(parts[name].column if name in parts else name for name in features))


def feature_schema(schema: pa.Schema, features: Sequence[str]) -> pa.Schema:
    """Features with the types that they are recorded as, see `canonical_schema`, and `time_zones`.

    Raises:
        DataError, SpecError: as `source_columns`.
    """
    parts = _parts_among(schema, features)
    kinds = {name: value_type(schema.field(part.column).type) for name, part in parts.items()}
    zones = {name: kind.tz for name, kind in kinds.items() if pa.types.is_timestamp(kind)}
    recorded = canonical_schema(_with_parts(schema, features, parts), features)
    return with_time_zones(recorded, zones)


def time_zones(features: pa.Schema) -> dict[str, str | None]:
    """The time zones that parts were computed in; see `TimeZones`."""
    recorded = ((field.name, (field.metadata or {}).get(_ZONE)) for field in features)
    return {name: zone.decode() or None for name, zone in recorded if zone is not None}


def with_time_zones(features: pa.Schema, zones: TimeZones) -> pa.Schema:
    """The same features with the time zones of their parts."""
    return pa.schema(
        [
            field.with_metadata({_ZONE: zones[field.name] or ""}) if field.name in zones else field
            for field in features
        ]
    )


def common_time_zones(schemas: Iterable[pa.Schema]) -> dict[str, str | None]:
    """The time zones of features that several parts of the rows have.

    Raises:
        DataError: if a time zone differs.
    """
    common: dict[str, str | None] = {}
    for schema in schemas:
        for name, zone in time_zones(schema).items():
            if common.setdefault(name, zone) != zone:
                raise DataError(
                    f"{name!r} is of times {_in_zone(common[name])} in one part and "
                    f"{_in_zone(zone)} in another; convert them to one time zone."
                )
    return common


def _in_zone(zone: str | None) -> str:
    return "without a time zone" if zone is None else f"in time zone {zone!r}"


def select(
    batch: pa.RecordBatch, features: Sequence[str], zones: TimeZones = MappingProxyType({})
) -> pa.RecordBatch:
    """The features of a batch, in order: columns as they are, and parts of columns.

    A part is null where its column is.

    Args:
        batch: rows with the columns of the features.
        features: names of the features.
        zones: time zones to compute parts in; those of the columns by default.

    Raises:
        DataError: if a column is missing, the batch has it twice, its time zone is unknown, it has
            a time zone and that of the part has none or the reverse, or a date is outside of the
            years 1 to 9999.
        SpecError: if a feature is a part that its column does not have.
    """
    if batch.schema.names == list(features):
        return batch
    parts = _parts_among(batch.schema, features)
    if not parts:
        return batch.select(list(features))
    arrays = [
        _compute(batch.column(parts[name].column), parts[name], zones)
        if name in parts
        else batch.column(name)
        for name in features
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_with_parts(batch.schema, features, parts))


def _with_parts(schema: pa.Schema, features: Sequence[str], parts: Mapping[str, Part]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, parts[name].type) if name in parts else schema.field(name)
            for name in features
        ]
    )


def _parts_among(schema: pa.Schema, features: Sequence[str]) -> dict[str, Part]:
    """The features that are parts, by name; the others are columns of the table.

    Raises:
        DataError, SpecError: as `source_columns`.
    """
    names = schema.names
    columns = set(names)
    parts: dict[str, Part] = {}
    if columns.issuperset(features) and len(columns) == len(names):
        return parts
    for name in features:
        match = None if name in columns else _PART.fullmatch(name)
        if match and (part_of(name) or _has_parts(schema, match[2])):
            parts[name] = Part(*match.groups())
    check_columns(schema, [name for name in features if name not in parts])
    for name, part in parts.items():
        unknown = f"{name!r} needs column"
        check_known([part.column], columns, unknown, "the table has", DataError)
        check_columns(schema, [part.column])
        _check_part(part, schema.field(part.column).type)
    return parts


def _has_parts(schema: pa.Schema, column: str) -> bool:
    return any(field.name == column and parts_of_type(field.type) for field in schema)


def _check_part(part: Part, kind: pa.DataType) -> None:
    known = parts_of_type(kind)
    if part.name in known or (part.name == NUMBER and _has_number(value_type(kind))):
        return
    column = f"column {part.column!r} is {kind}"
    if part.name == NUMBER:
        raise SpecError(f"no feature '{part}': {column}, neither text nor numbers.")
    if not known:
        raise SpecError(
            f"no feature '{part}': {column}, not a date or time; convert it to a date or "
            "timestamp, or leave the feature out."
        )
    features = [str(Part(name, part.column)) for name in known]
    hint = "" if part.name in PARTS else nearest(str(part), features)
    raise SpecError(f"no feature '{part}': {column}, whose parts are {one_of(known)}.{hint}")


def _has_number(kind: pa.DataType) -> bool:
    return is_text_type(kind) or is_number_type(kind) or bool(pa.types.is_null(kind))


def _compute(column: pa.Array, part: Part, zones: TimeZones) -> pa.Array:
    kind = value_type(column.type)
    zone = zones.get(str(part), kind.tz) if pa.types.is_timestamp(kind) else None
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(part.type)
    if part.name == NUMBER:
        return numbers_of(column)
    if pa.types.is_timestamp(column.type) and column.type.tz != zone:
        if column.type.tz is None or zone is None:
            raise DataError(
                f"column {part.column!r} has times {_in_zone(column.type.tz)}, but '{part}' was "
                f"trained on times {_in_zone(zone)}; convert the column as for the training."
            )
        column = column.cast(pa.timestamp(column.type.unit, zone))  # the same instants
    _check_years(column, part)
    compute = {**_DATE_PARTS, **_TIME_PARTS}[part.name]
    try:
        return compute(column).cast(part.type)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {part.column!r} is {column.type}: this machine does not know the time zone "
            f"{column.type.tz!r}; correct its name, or install the time zone database (tzdata)."
        ) from error


def numbers_of(values: pa.Array) -> pa.Array:
    """The numbers that texts are, as float64; null where a text is not a number."""
    if is_number_type(values.type):
        return values.cast(pa.float64(), safe=False)
    texts = pc.utf8_trim(values, " ")
    is_number = pc.match_substring_regex(texts, NUMBER_PATTERN)
    return pc.if_else(is_number, texts, pa.scalar(None, texts.type)).cast(pa.float64())


def _check_years(column: pa.Array, part: Part) -> None:
    if pa.types.is_time(column.type):
        return
    if pa.types.is_date32(column.type):
        bounds, per_day = pc.min_max(column.cast(pa.int32())), 1
    else:
        unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
        bounds, per_day = pc.min_max(column.cast(pa.int64())), 86_400 * _UNITS_PER_SECOND[unit]
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is not None and not _FIRST_DAY <= first // per_day <= last // per_day <= _LAST_DAY:
        raise DataError(
            f"column {part.column!r} contains dates outside of the years 1 to 9999; check the unit "
            f"of {column.type}, or make these dates null."
        )


def _hours(values: pa.Array) -> pa.Array:
    """Hours since midnight, in [0, 24)."""
    if pa.types.is_timestamp(values.type):
        values = values if values.type.tz is None else pc.local_timestamp(values)
    unit = values.type.unit
    counts = values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64())
    mask = np.asarray(counts.is_null())
    per_hour = 3_600 * _UNITS_PER_SECOND[unit]
    numbers = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(numbers % (24 * per_hour) / per_hour, mask=mask)
