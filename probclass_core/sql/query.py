"""The query that scores a table: from a model to one SELECT of common table expressions.

Read from the top of the SQL to its end::

    input       the columns of the source as doubles and texts; x1, x2 …
    values      what is the same for all classes; v1, v2 …
    joint       log p(x, c) of each class; j1, j2 …
    peak, sum   log p(x) by log-sum-exp: the largest j and Σ exp(j − largest)
    posterior   log P(c | x); q1, q2 …
    choice      the class that the rule chooses
    the rest    the columns of `pc.score`
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.contract import FormulaLikelihood
from probclass_core.estimation.formulas import Expression, Formula
from probclass_core.model.block_weights import CAP, BlockWeights, CompiledBlock
from probclass_core.model.calibration import LOWEST_SCORE, Calibration
from probclass_core.model.density_quantiles import limits
from probclass_core.model.model import Model
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.options import RowOption, RowOptions
from probclass_core.sql.contributions import ContributedColumns
from probclass_core.sql.dialects import (
    Dialect,
    Stages,
    bisected,
    find_dialect,
    numbered,
    pick,
    plus,
    position,
    sums,
)
from probclass_core.sql.render import Renderer

_LEAST_EXPONENT = -700.0
"""Where exp of a smaller number raises an error, it is 0."""

_SOURCE = "t"


def to_sql(
    model: Model,
    *,
    dialect: str,
    source: str | Sequence[str],
    options: RowOption = None,
    view: str | Sequence[str] | None = None,
) -> str:
    """The query that scores a table where it is: the scored table of `score`, as one SELECT.

    Rows that `score` raises an error about, such as those with an infinite number, have null in
    every scored column but ``model_id``.

    Args:
        model: model to score with.
        dialect: ``"duckdb"``, ``"postgres"``, ``"sqlite"``, ``"spark"``, ``"datafusion"`` or
            ``"clickhouse"``.
        source: name of the table, such as ``schema.table``, or its parts as a list; or a query
            in parentheses, which is not quoted.
        options: what is written for each row, such as columns to copy, by default none; see
            `RowOptions`, or a mapping of its fields.
        view: name of a view to create; by default the text is the SELECT alone.

    Returns:
        SQL without a semicolon at its end.

    Raises:
        SpecError: if the dialect is unknown, the engine cannot have one of the names, or the
            options do not fit the model.
        NotSupportedError: if a block has no formula, saying why.
    """
    query = _Query(model, find_dialect(dialect), source, RowOptions.parse(options))
    select = query.text()
    if view is None:
        return select
    return f"CREATE VIEW {query.dialect.source(view)} AS\n{select}"


def joint_sql(model: Model, *, dialect: str, source: str | Sequence[str]) -> str:
    """The query of log p(x, c) of each class, in class order, then 1 if `score` refuses the row.

    Raises:
        SpecError, NotSupportedError: as `Model.to_sql`.
    """
    return _Query(model, find_dialect(dialect), source, RowOptions()).joint_text()


class _Query:
    """Builds the query; each method adds common table expressions."""

    def __init__(
        self,
        model: Model,
        dialect: Dialect,
        source: str | Sequence[str],
        options: RowOptions,
    ) -> None:
        self.passthrough = options.columns or ()
        passthrough = pa.schema([(name, pa.null()) for name in self.passthrough])
        self.scorer = BatchScorer(model, passthrough, options)
        self.rule = self.scorer.compiled_rule
        self.model = model
        self.dialect = dialect
        self.source = dialect.source(source)
        self.renderer = Renderer(dialect, model.features, _SOURCE)
        self.size = len(model.classes)
        self.stages = Stages(dialect.cte)
        self._stage, self._each = self.stages.extend, self.stages.each
        self.refused = False  # whether there is such a column
        self._check_names(self.scorer.schema.names)
        self.contributed = None
        if self.scorer.contributions is not None:
            self.contributed = ContributedColumns(
                self.scorer.contributions, model, self.renderer, self.stages
            )
        self.posterior: Sequence[str] = ()
        self.joint: tuple[Sequence[str], str] = (), ""  # of the density, and its log sum
        if options.posterior == "list" and dialect.array is None:
            raise NotSupportedError(f"{dialect.name} has no lists; use posterior='columns'.")

    def _check_names(self, names: Sequence[str]) -> None:
        """Refuse names of scored columns that the engine takes for the same."""
        seen: dict[str, str] = {}
        for name in names:
            key = name.lower() if self.dialect.folds_case else name
            if key in seen:
                raise SpecError(
                    f"columns {seen[key]!r} and {name!r} are the same to {self.dialect.name}, "
                    "which ignores case; use posterior='list', or rename a class or column."
                )
            seen[key] = name

    # Common table expressions.

    def _literals(self, values: Iterable[Any]) -> list[str]:
        return [self.renderer.literal(float(value)) for value in values]

    def _stage_by_class(
        self, name: str, letter: str, texts: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """Add a column for each text, which are by block and class; the names of the columns."""
        columns = {
            block: numbered(f"{letter}{number}_", of_class)
            for number, (block, of_class) in enumerate(texts.items(), 1)
        }
        self._stage(name, {key: text for one in columns.values() for key, text in one.items()})
        return {block: list(of_block) for block, of_block in columns.items()}

    def text(self) -> str:
        dialect = self.dialect
        joints, densities = self._log_likelihoods()
        log_posterior, log_density = self._posterior(joints, densities)
        self.posterior, self.joint = (
            log_posterior,
            (densities or joints, "us" if densities else "qs"),
        )
        select = self._decide(log_posterior, log_density)
        # Named by us first: a column of the caller may have the name of one of ours.
        listed = ",\n    ".join(f"{text} AS o{at}" for at, text in enumerate(select, 1))
        self.stages.add("scored", f"SELECT {listed}\n  FROM {self.stages.last}")
        outputs = ",\n  ".join(
            f"s.o{at} AS {dialect.identifier(name)}"
            for at, name in enumerate(self.scorer.schema.names, 1)
        )
        return f"{self.stages}\nSELECT {outputs}\nFROM pc_scored AS s{dialect.settings}"

    def joint_text(self) -> str:
        joints, densities = self._log_likelihoods()
        refused = "refused" if self.refused else "0"
        columns = ", ".join([*(densities or joints), refused])
        return f"{self.stages}\nSELECT {columns}\nFROM {self.stages.last}"

    def _log_likelihoods(self) -> tuple[list[str], list[str] | None]:
        """Columns of log p(x, c), and of the unweighted one if the model has weights."""
        model, size = self.model, self.size
        blocks: dict[str, list[str]] = {}  # text by class
        for one in model.compiled_blocks:
            formula = formula_of(one)
            self._refuse(formula)
            if self.contributed is not None and self.contributed.divides(one.name):
                blocks[one.name] = self.contributed.sum_of_columns(
                    one.name, formula.terms, self._sum_of
                )
            else:
                blocks[one.name] = [self._sum_of(formula.terms, at) for at in range(size)]
        within = [self._sum_of([*each.terms], 0) for each in model.compiled_bin_densities]
        self._inputs()
        everywhere = [[name] * size for name in self._each("within_bins", "within", within)]
        if self.contributed is not None:
            self._stage("columns", self.contributed.columns)
        prior = self._literals(model.log_prior)
        weights, names = model.weights, blocks
        if weights is not None or self.contributed is not None:
            names = self._stage_by_class("blocks", "b", blocks)
        pool: Mapping[str, Sequence[str]] = names
        densities: dict[str, str] = {}
        if weights is None:
            joint = sums([prior, *everywhere, *names.values()])
        else:
            pool = self._pool(names, weights)
            joint = sums([prior, self._literals(weights.bias), *pool.values()])
            if model.normalized:
                factors = [names[name] for name in model.spec.density_blocks]
                densities = numbered("d", sums([prior, *everywhere, *factors]))
        if self.contributed is not None:
            self.contributed.blocks, self.contributed.pool = names, pool
        joints = numbered("j", joint)
        self._stage("joint", {**joints, **densities})
        return list(joints), list(densities) or None

    def _pool(
        self, names: Mapping[str, Sequence[str]], weights: BlockWeights
    ) -> Mapping[str, Sequence[str]]:
        """What each block adds to the posterior, by class, given the columns of its density."""
        best = self._each("best", "b", map(self._peak, names.values()))
        zero, cap = self.dialect.literal(0.0), self.dialect.literal(-CAP)
        pool: dict[str, list[str]] = {}
        for (block, columns), peak in zip(names.items(), best, strict=True):
            if factor := weights.factors.get(block, 0.0):
                below = [f"COALESCE({column} - {peak}, {zero})" for column in columns]
                capped = [self.dialect.function("GREATEST", one, cap) for one in below]
                pool[block] = [f"{one} * {self.renderer.literal(factor)}" for one in capped]
        return pool if self.contributed is None else self._stage_by_class("pool", "w", pool)

    def _refuse(self, formula: Formula) -> None:
        for condition in formula.refused:
            decided = self.renderer.condition(condition, 0)
            if not isinstance(decided, bool):
                self.renderer.refuse(decided.text)
        if formula.complete:
            known = [self.renderer.number(column).text for column in formula.complete]
            some = " OR ".join(f"{column} IS NULL" for column in known)
            every = " AND ".join(f"{column} IS NULL" for column in known)
            self.renderer.refuse(f"(({some}) AND NOT ({every}))")

    def _sum_of(self, terms: Sequence[Expression], at: int) -> str:
        """The sum of a block's terms for one class; constants are added up."""
        values = [self.renderer.expression(term, at) for term in terms]
        constant = math.fsum(each.value for each in values if each.value is not None)
        texts = [each.within(1) for each in values if each.value is None]
        if constant or not texts:
            texts.insert(0, self.dialect.literal(constant))
        return plus(texts)

    def _inputs(self) -> None:
        """The columns of the source, and what is computed of them once for all classes."""
        dialect = self.dialect
        kept = [
            f"{_SOURCE}.{dialect.identifier(name)} AS k{number}"
            for number, name in enumerate(self.passthrough, 1)
        ]
        first, *later = self.renderer.columns.levels
        listed = [*kept, *(f"{text} AS {name}" for name, text in first.items())]
        body = ",\n    ".join(listed or ["1 AS x0"])
        self.stages.add("input", f"SELECT {body}\n  FROM {self.source} AS {_SOURCE}")
        for number, columns in enumerate(later, 1):
            self._stage(f"values{number}", columns)
        self.refused = bool(self.renderer.refused)
        if self.refused:
            is_refused = _any([*self.renderer.refused])
            self._stage("checked", {"refused": f"CASE WHEN {is_refused} THEN 1 ELSE 0 END"})

    # From log p(x, c) to the posterior.

    def _peak(self, columns: Sequence[str]) -> str:
        """The largest of some columns, or null if all are −∞."""
        largest = self.dialect.function("GREATEST", *columns)
        return f"NULLIF({largest}, {self.dialect.literal(-math.inf)})"

    def _normalize(
        self, columns: Sequence[str], names: str, instead: Sequence[str]
    ) -> tuple[list[str], str]:
        """Log posteriors of log joints, and their log sum, null if all are −∞.

        Args:
            columns: names of ``k`` log joints.
            names: letter of the new columns.
            instead: SQL of the ``k`` log posteriors of a row that no class explains.
        """
        self._stage(f"{names}_peak", {f"{names}m": self._peak(columns)})
        terms = [self._exp(f"{column} - {names}m") for column in columns]
        self._stage(f"{names}_sum", {f"{names}s": f"LN({plus(terms)})"})
        results = [
            f"COALESCE({column} - {names}m - {names}s, {other})"
            for column, other in zip(columns, instead, strict=True)
        ]
        return self._each(f"{names}_posterior", names, results), f"{names}m + {names}s"

    def _posterior(self, joints: list[str], densities: list[str] | None) -> tuple[list[str], str]:
        model, literal = self.model, self.dialect.literal
        prior = self._literals(model.log_prior)
        posterior, log_sum = self._normalize(joints, "q", prior)
        if densities is not None:
            _, log_sum = self._normalize(densities, "u", prior)
        if model.calibrator is not None:
            posterior = self._calibrated(model.calibrator, posterior)
        ratio = self.scorer.log_ratio
        if ratio is not None:
            shifted = sums([posterior, self._literals(ratio)])
            instead = self._literals(model.log_prior + ratio)
            names = self._each("shifted", "h", shifted)
            posterior, _ = self._normalize(names, "g", instead)
        log_density = f"COALESCE({log_sum}, {literal(-math.inf)})"
        if not model.normalized:
            log_density = f"CAST(NULL AS {self.dialect.double})"
        return posterior, log_density

    def _calibrated(self, calibrator: Calibration, posterior: list[str]) -> list[str]:
        """exp(s / T + b) of scores s; rows that no class explains keep their posterior."""
        self._stage("most_probable", {"best": self.dialect.function("GREATEST", *posterior)})
        least = self.dialect.literal(LOWEST_SCORE)
        temperature = self.renderer.literal(calibrator.temperature)
        scaled = []
        for column, bias in zip(posterior, calibrator.bias, strict=True):
            score = self.dialect.function("GREATEST", f"({column} - best)", least)
            scaled.append(plus([f"{score} / {temperature}", self.dialect.literal(float(bias))]))
        names = self._each("scaled", "w", scaled)
        calibrated, _ = self._normalize(names, "c", posterior)
        pairs = zip(posterior, calibrated, strict=True)
        kept = [f"CASE WHEN qm IS NULL THEN {old} ELSE {new} END" for old, new in pairs]
        return self._each("calibrated", "e", kept)

    # From the posterior to the scored columns.

    def _exp(self, log: str) -> str:
        if not self.dialect.raises:
            return f"EXP({log})"
        least = self.dialect.literal(_LEAST_EXPONENT)
        return f"CASE WHEN {log} < {least} THEN {self.dialect.literal(0.0)} ELSE EXP({log}) END"

    def _decide(self, posterior: list[str], log_density: str) -> list[str]:
        """SQL of the scored columns, in their order."""
        rule, dialect, size = self.rule, self.dialect, self.size
        if self.model.spec.label is None:
            self._stage("density", {"density": log_density})
            return self._checked({})
        criterion = posterior
        if rule.rule.by == "ml":
            prior = self.model.log_prior
            if not np.isfinite(prior).all():
                raise NotSupportedError(
                    "SQL cannot express decision 'ml' if the prior of a class is 0; use 'map'."
                )
            logs = enumerate(self._literals(prior), 1)
            likelihoods = [f"j{at} - {log}" for at, log in logs]
            even = [self.renderer.literal(-math.log(size))] * size
            names = self._each("likelihood", "l", likelihoods)
            criterion, _ = self._normalize(names, "o", even)
        probabilities = numbered("p", map(self._exp, posterior))
        self._stage("probabilities", {**probabilities, "density": log_density})
        p = list(probabilities)
        texts: dict[str, Sequence[str]] = {"prob": p}
        if rule.costs is None:
            self._stage("largest", {"best_of": dialect.function("GREATEST", *criterion)})
        else:
            of_criterion = p
            if rule.rule.by == "ml":
                even = [self._exp(each) for each in criterion]
                of_criterion = self._each("even", "r", even)
            criterion = self._each("costs", "z", self._costs(of_criterion, rule.costs))
            self._stage("least", {"best_of": dialect.function("LEAST", *criterion)})
            texts["cost"] = criterion
            if rule.rule.by == "ml":
                texts["cost"] = self._each("expected", "y", self._costs(p, rule.costs))
        tests = [f"{column} = best_of" for column in criterion]
        self._stage("choice", {"chosen": position(tests)})
        self._stage("chosen_class", {name: pick("chosen", each) for name, each in texts.items()})
        return self._scored(p)

    def _costs(self, p: Sequence[str], costs: FloatArray) -> list[str]:
        """Expected cost of each prediction."""
        return [
            plus(
                [
                    column if cost == 1.0 else f"{column} * {self.renderer.literal(float(cost))}"
                    for column, cost in zip(p, of_action, strict=True)
                    if cost
                ]
                or [self.dialect.literal(0.0)]
            )
            for of_action in costs.T
        ]

    def _scored(self, p: Sequence[str]) -> list[str]:
        rule, dialect = self.rule, self.dialect
        reasons = []
        if rule.min_log_density is not None:
            least = self.renderer.literal(rule.min_log_density)
            rare = f"density < {least} OR density = {dialect.literal(-math.inf)}"
            reasons.append((rare, "density"))
        if rule.rule.min_probability is not None:
            least = self.renderer.literal(rule.rule.min_probability)
            reasons.append((f"prob < {least}", "probability"))
        classes = [dialect.value(value) for value in self.model.classes.to_pylist()]
        prediction = pick("chosen", classes)
        columns: dict[str, str] = {}
        if reasons:
            cases = " ".join(
                f"WHEN {when} THEN {dialect.string_literal(why)}" for when, why in reasons
            )
            reason = f"CASE {cases} END"
            self._stage("rejection", {"reason": reason})
            prediction = f"CASE WHEN reason IS NULL THEN {prediction} END"
            columns["rejected"] = "reason"
        scored = {"prediction": prediction, "probability": "prob", **columns}
        if rule.costs is not None:
            scored["expected_cost"] = "cost"
        if self.scorer.options.posterior == "list":
            assert dialect.array is not None
            scored["posterior"] = dialect.array.format(", ".join(p))
        else:
            scored |= {f"p{at}": name for at, name in enumerate(p)}
        return self._checked(scored)

    def _checked(self, scored: Mapping[str, str]) -> list[str]:
        """SQL of all columns, given those of the classes; null for rows that `score` refuses."""
        scored = {**scored, "log_density": "density"}
        if self.scorer.quantiles is not None:
            self._stage("rarity", {"share": self._rarity(self.scorer.quantiles)})
            scored["rarity"] = "share"
        if self.scorer.options.rare is not None:
            scored["rare"] = f"share <= {self.dialect.literal(self.scorer.options.rare)}"
        contributed: list[str] = []
        if self.contributed is not None:
            contributed = self.contributed.scored(self.posterior, *self.joint)
        kept = [f"k{number}" for number in range(1, len(self.passthrough) + 1)]
        model_id = self.dialect.string_literal(self.model.id)
        of_rows, terms = (
            map(self._unless_refused, texts) for texts in (scored.values(), contributed)
        )
        return [*kept, *of_rows, model_id, *terms]

    def _unless_refused(self, text: str) -> str:
        return f"CASE WHEN refused = 0 THEN {text} END" if self.refused else text

    def _rarity(self, quantiles: pa.Table) -> str:
        """The share of the known rows that are at least as improbable; see `rarity`."""
        shares = [*quantiles["quantile"].to_pylist(), 1.0]
        cuts, results = ([*map(self.dialect.literal, each)] for each in (limits(quantiles), shares))
        return bisected("density", cuts, results)


def formula_of(one: CompiledBlock) -> Formula:
    """The formula of a block.

    Raises:
        NotSupportedError: if it has none, saying why.
    """
    estimator = one.block.estimator
    if not isinstance(one.likelihood, FormulaLikelihood):
        raise NotSupportedError(
            f"SQL cannot express block {one.name!r}: the estimator {estimator!r} does not write "
            "its density as a formula; score it by pc.score."
        )
    try:
        formula = one.likelihood.formula()
    except NotSupportedError as error:
        raise NotSupportedError(
            f"SQL cannot express block {one.name!r} ({estimator}): {error}"
        ) from error
    return formula


def _any(conditions: Sequence[str]) -> str:
    """Whether one is true; in groups, since engines limit how deep expressions are."""
    step = 100
    if len(conditions) <= step:
        return " OR ".join(conditions)
    starts = range(0, len(conditions), step)
    return _any([f"({_any(conditions[start : start + step])})" for start in starts])
