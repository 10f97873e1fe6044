"""Train, calibrate, evaluate: one operator for each verb of the library.

Every field that names data or a model is a template. A run triggered by hand or by an asset may
have no logical date, and then ``{{ ds }}`` raises. Take partitions from ``data_interval_start`` in
a DAG on a schedule, otherwise from ``{{ partition_key or (ds if ds is defined else run_id) }}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.specs import model_spec

if TYPE_CHECKING:
    from probclass_core import Model, ModelSpec, ModelStore, TableRef
    from probclass_core.analysis.distributions.watch import Verdict
    from probclass_core.analysis.evaluation import Evaluation
    from probclass_core.store.records import ModelVersion

_MAX_WARNINGS = 10
"""Sentences in an XCom; the log and the store have all."""

_ERRORS = ("log_loss_error", "log_loss_gain_error", "accuracy_gain_error", "log_density_error")
"""Standard errors, which the verdicts take from the record of the evaluation."""


class ProbClassTrainOperator(ProbClassOperator):
    """Fit a model on a table, save it under its content id, and point an alias at it.

    The same rows, spec and release give the same version: a retry or a rerun adds nothing to the
    store.

    Args:
        spec: the model, as a dict for `ModelSpec.from_dict` or the path of a TOML, YAML or JSON
            file. A relative path starts at the folder of the DAG. Text values are templates.
        label_column: the class column, in place of a spec, for the model that `ModelSpec.auto`
            derives from the rows.
        no_label: derive a density of all rows from them, in place of a spec or a label column.
        exclude: columns that the derived model does not use.
        groups: columns whose values tell which rows are alike, for the derived model; by default
            the partition columns, see `ModelSpec`.
        half_life: number of partitions after which rows count half as much, or ``"auto"``, for the
            derived model; see `ModelSpec`.
        model: name to save the model under.
        alias: alias to promote the saved version to, such as ``"champion"`` or the month.
        density_quantiles: read the rows a second time and save quantiles of their density with the
            model, for the ``min_rarity`` of a decision rule.
        cache: cache the statistics of each unit in the store and read only units that are
            not cached; the model is the same.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), alias, rows, null_labels, spec_digest; if the spec fits block weights
        also log_loss and baseline_log_loss, of the class prior, on rows that the blocks did not
        see; with ``cache`` also cache, the number of units and the number of reused ones.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "spec",
        "label_column",
        "exclude",
        "model",
        "alias",
    )
    saves_model = True
    ui_color = "#d7ebf7"

    def __init__(
        self,
        *,
        model: str,
        spec: Mapping[str, Any] | str | None = None,
        label_column: str | None = None,
        no_label: bool = False,
        exclude: Sequence[str] = (),
        groups: str | Sequence[str] | None = "partitions",
        half_life: Literal["auto"] | float | None = None,
        alias: str | None = None,
        density_quantiles: bool = False,
        cache: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.label_column = label_column
        self.no_label = no_label
        self.exclude = exclude
        self.groups = groups
        self.half_life = half_life
        self.model = model
        self.alias = alias
        self.density_quantiles = density_quantiles
        self.cache = cache

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Fit, save, promote."""
        import probclass_core as pc

        store, source = self.model_store(), self.table()
        cache = store if self.cache else None
        self.spec_used = spec = self._spec(source, cache)
        model = pc.fit(source, spec, cache=cache, **self.read_options())
        if self.density_quantiles:
            model = pc.with_density_quantiles(model, source, **self.read_options())
        version = self.save_model(store, model, self.model, self.alias, run)
        return {
            "model": version.ref,
            "alias": self.alias,
            "rows": model.training["rows"],
            "null_labels": model.training["null_labels"],
            "spec_digest": model.spec.digest,
            **_log_losses(model),
            **({"cache": model.training["cache"]} if self.cache else {}),
        }

    def _spec(self, source: TableRef | str, cache: ModelStore | None) -> ModelSpec:
        """The spec that is given, or that is derived from the rows.

        Raises:
            SpecError: if not one of spec, label_column and no_label is given, or a spec and groups
                or half_life, or it is invalid.
        """
        import probclass_core as pc
        from probclass_core.errors import SpecError

        given = (self.spec is not None, self.label_column is not None, self.no_label)
        if sum(given) != 1:
            raise SpecError(
                "expected either a spec, or a label_column or no_label=True for a derived spec."
            )
        if self.spec is not None:
            if self.half_life is not None or self.groups != "partitions":
                raise SpecError(
                    "groups and half_life are for a derived spec; set them in the spec."
                )
            return model_spec(self, self.spec)
        return pc.ModelSpec.auto(
            source,
            self.label_column,
            exclude=self.exclude,
            groups=self.groups,
            half_life=self.half_life,
            cache=cache,
            **self.read_options(),
        )


def _log_losses(model: Model) -> dict[str, float]:
    """Log loss of rows that the blocks did not see, and of the class prior, if the fit has them."""
    fitted = model.training.get("block_weights")
    if fitted is None:
        return {}
    return {"log_loss": fitted["log_loss"], "baseline_log_loss": fitted["prior_log_loss"]}


class ProbClassCalibrateOperator(ProbClassOperator):
    """Calibrate the posteriors of a stored model on labeled rows, and save the new version.

    If it does not lower the log loss of held-out rows, the model stays as it is.

    Args:
        model: ``name@alias`` or ``name@id``; the new version is saved under the same name.
        alias: alias to promote the new version to.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), alias, of (``name@id`` before calibration), applied, rows,
        uncalibrated_log_loss and calibrated_log_loss (nats on held-out rows; null if infinite).
    """

    template_fields: Sequence[str] = (*ProbClassOperator.template_fields, "model", "alias")
    saves_model = True
    ui_color = "#e6dcf4"

    def __init__(self, *, model: str, alias: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.alias = alias

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load, calibrate, save, promote."""
        import probclass_core as pc

        store = self.model_store()
        version, model = self.load_model(store, self.model)
        model = pc.calibrate(model, self.table(), **self.read_options())
        saved = self.save_model(store, model, version.model, self.alias, run)
        return {
            "model": saved.ref,
            "alias": self.alias,
            "of": version.ref,
            **{
                name: model.training["calibration"][name]
                for name in ("applied", "rows", "uncalibrated_log_loss", "calibrated_log_loss")
            },
        }


class ProbClassEvaluateOperator(ProbClassOperator):
    """Evaluate a stored model on labeled rows, compared with its prior alone as the baseline.

    The evaluation is recorded in the store with the version; the same rows again add no record.

    Args:
        model: ``name@alias`` or ``name@id``; an alias is resolved once, and the id is recorded.
        decision: ``"map"``, ``"ml"``, or a dict for `DecisionRule.from_dict`.
        missing_labels: what to do if no row has a label yet: ``"retry"`` while the task has retries
            left, ``"skip"`` the task, or ``"fail"`` at once.
        watch: floors and what to do below them, as for `Watch.from_dict`; True for its defaults,
            which warn, False for none. The action ``"fail"`` fails the task without a retry,
            ``"rollback"`` moves the alias of `model` back to the version before, once, if it still
            names the judged version.
        missing_columns: what to do about a column of the model that no file has: ``"error"``, or
            ``"warn"`` or ``"allow"``, which read it as null.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), partition, rows, null_labels, unseen_labels, decided, rejected (by
        reason), rejected_share, accuracy, cost, log_loss (nats; null if infinite), brier, ece, the
        same of the prior alone (baseline_accuracy …), log_density (mean, nats; null without one),
        worse_than_prior (metrics by which the prior is better), model_id, warnings (verdicts as
        sentences, at most 10), rolled_back_to
        (``name@id``, or null).
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "model",
        "decision",
        "watch",
    )
    ui_color = "#f7ecd0"

    def __init__(
        self,
        *,
        model: str,
        decision: Mapping[str, Any] | str = "map",
        missing_labels: Literal["retry", "skip", "fail"] = "retry",
        watch: Mapping[str, Any] | bool = True,
        missing_columns: Literal["error", "warn", "allow"] = "error",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if missing_labels not in ("retry", "skip", "fail"):
            raise ValueError(
                f"missing_labels must be 'retry', 'skip' or 'fail', got {missing_labels!r}."
            )
        self.model = model
        self.decision = decision
        self.missing_labels = missing_labels
        self.watch = watch
        self.missing_columns = missing_columns

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load, evaluate, record, judge."""
        store = self.model_store()
        version, model = self.load_model(store, self.model)
        evaluation = self.evaluate(store, version, model, run)
        verdicts = self.judge(store, version, evaluation)
        rolled_back = self.roll_back(store, version, verdicts, run)
        summary = evaluation.to_dict()
        # One row per class and more: too large for XCom if there are many classes.
        for name in ("confusion", "per_class", "reliability", *_ERRORS):
            del summary[name]
        if failed := [verdict.sentence for verdict in verdicts if verdict.action == "fail"]:
            raise AirflowFailException(f"{version.ref}: {' '.join(failed)}")
        return {
            "model": version.ref,
            "partition": self.partition,
            **summary,
            "warnings": [verdict.sentence for verdict in verdicts][:_MAX_WARNINGS],
            "rolled_back_to": rolled_back,
        }

    def judge(
        self, store: ModelStore, version: ModelVersion, evaluation: Evaluation
    ) -> list[Verdict]:
        """The verdicts on an evaluation, which are logged as warnings."""
        import probclass_core as pc

        watch = pc.Watch.parse(self.watch)
        if watch is None:
            return []
        promoted = store.evaluation_at_promotion(version)
        verdicts = watch.judge(evaluation, None if promoted is None else promoted.result)
        for verdict in verdicts:
            self.log.warning("%s: %s", version.ref, verdict)
        return verdicts

    def roll_back(
        self,
        store: ModelStore,
        version: ModelVersion,
        verdicts: Sequence[Verdict],
        run: dict[str, str],
    ) -> str | None:
        """Roll back the alias if a verdict says so; return the version that it names then."""
        from probclass_core.errors import StoreError

        reasons = [verdict.sentence for verdict in verdicts if verdict.action == "rollback"]
        if not reasons:
            return None
        _, _, selector = self.model.partition("@")
        alias = selector.partition("@")[0]
        named = store.aliases(version.model).get(alias)
        if named is None or named.id != version.id:
            self.log.warning("%s is not rolled back: no alias names it now", version.ref)
            return None
        self.raise_if_stopped()
        try:
            entry = store.rollback(
                version.model,
                alias,
                expected=version,
                by=f"{run['dag_id']}.{run['task_id']}",
                reason=" ".join(reasons),
                provenance={"airflow": run},
            )
        except StoreError as error:  # such as: it was the first version
            self.log.warning("%s is not rolled back: %s", version.ref, error)
            return None
        self.log.warning("%s is %s again", entry.ref, alias)
        return entry.ref

    @contextmanager
    def labels(self) -> Iterator[None]:
        """Do what `missing_labels` says if no row has a label yet."""
        from probclass_core.errors import MissingLabelsError

        try:
            yield
        except MissingLabelsError as error:
            if self.missing_labels == "skip":
                raise AirflowSkipException(str(error)) from None
            if self.missing_labels == "fail":
                raise AirflowFailException(str(error)) from None
            raise

    def evaluate(
        self, store: ModelStore, version: ModelVersion, model: Model, run: dict[str, str]
    ) -> Evaluation:
        """Evaluate a model on the rows of the source and record the evaluation in the store."""
        import probclass_core as pc

        with self.labels():
            evaluation = pc.evaluate(
                model,
                self.table(),
                decision=self.decision,
                missing_columns=self.missing_columns,
                **self.read_options(),
            )
        self.raise_if_stopped()
        fields = ("source", "partition", "where", "decision")
        rows = {name: getattr(self, name) for name in fields if getattr(self, name) is not None}
        plain = json.loads(json.dumps(rows, default=str))  # a condition may contain a date
        store.record_evaluation(version, evaluation, on=plain, provenance={"airflow": run})
        if evaluation.warning:
            self.log.warning("%s: %s", version.ref, evaluation.warning)
        return evaluation
