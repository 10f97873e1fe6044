"""The spec of a training: the one given, or one that is derived from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import Any

from probclass_core.errors import SpecError, expect
from probclass_core.io.table import Source
from probclass_core.spec.model_spec import SPEC_HINT, ModelSpec


def spec_or_auto(
    spec: ModelSpec | None,
    label: str | None,
    table: Source,
    derived: Mapping[str, Any] | None = None,
    **reading: Any,
) -> ModelSpec:
    """The spec of a training: the one given, or that of `ModelSpec.auto` for a label.

    Args:
        spec: the model, or None.
        label: the class column, or None.
        table: table to derive the spec from.
        derived: arguments of `ModelSpec.auto` that are part of the spec.
        reading: its other arguments: which rows to read, and how.

    Raises:
        SpecError: if neither or both of spec and label are given, or a spec and other arguments of
            a derived one, or the spec is something else.
    """
    check_spec(spec)
    if (spec is None) == (label is None):
        given = "both a spec and a label" if spec is not None else "neither a spec nor a label"
        raise SpecError(
            f"expected a spec, or label= for a spec that is derived from the rows; got {given}."
        )
    if label is not None:
        from probclass_core.structure.auto import auto  # takes time to import

        return auto(table, label, **(derived or {}), **reading)
    assert spec is not None
    others = (derived or {}).items()
    # A value may be a column of pandas, which is neither true nor false.
    is_given = [
        name == "groups" or not isinstance(value, tuple | None) or value for name, value in others
    ]
    if extra := [*compress(derived or {}, is_given)]:
        raise SpecError(
            f"{extra[0]}= is for a spec that is derived from the rows, with label=; got a spec as "
            "well: change the spec itself."
        )
    return spec


def check_spec(spec: object) -> None:
    """Refuse labels, names and paths in the place of a spec.

    Raises:
        SpecError: if it is neither a spec nor None.
    """
    if isinstance(spec, str):
        raise SpecError(
            f"expected a ModelSpec, got str; {SPEC_HINT}, or write label={spec!r} if it is the "
            "class column."
        )
    if hasattr(spec, "__len__") and not isinstance(spec, Mapping):  # y of scikit-learn's fit(X, y)
        raise SpecError(
            f"expected a ModelSpec, got {type(spec).__name__}; if it is the labels, put them into "
            'the table: fit(pandas.DataFrame(X).assign(label=y), label="label").'
        )
    if spec is not None:
        expect(spec, ModelSpec, SPEC_HINT)
