"""Models of a store that score, and the record of what they scored in it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from probclass_core.errors import SpecError, StoreError
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.scoring.reports import ScoreReport
from probclass_core.store.model_store import ModelStore
from probclass_core.store.references import ModelVersion

log = logging.getLogger(__name__)

StoredModelOption: TypeAlias = ModelOption | ModelVersion | str
"""A model; with a store, a version in it or a reference to one."""


def load_scorer(
    model: StoredModelOption, store: ModelStore | None
) -> tuple[Model, ModelVersion | None]:
    """The model, and its version if it is in a store.

    Raises:
        SpecError: if it is a model without a name although a store is given, or no model.
        StoreError: if the version does not exist or cannot be read.
    """
    if store is None:
        return as_model(cast("ModelOption", model)), None
    if not isinstance(model, (ModelVersion, str)):
        raise SpecError(
            "with store, model must be a version or a reference such as 'air@champion', so that "
            f"the scoring is recorded with it, got a {type(model).__name__}."
        )
    version = store.resolve(model)
    return store.load(version), version


def record_scored(
    store: ModelStore | None,
    version: ModelVersion | None,
    report: ScoreReport,
    provenance: Mapping[str, Any],
) -> None:
    """Record what was scored with a version of a store, if there is one."""
    if store is None or version is None or report.dry_run:
        return
    try:
        store.record_scoring(version, report, provenance=provenance)
    except StoreError as error:  # the rows are committed, and the store may be read-only
        log.warning("scored, but not recorded in the store: %s", error)
