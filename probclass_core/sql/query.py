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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.contract import FormulaLikelihood
from probclass_core.estimation.formulas import FORMULA_VERSION, Expression, Formula
from probclass_core.model.block_weights import CAP
from probclass_core.model.calibration import IsotonicMaps, Softmax
from probclass_core.model.model import Model
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.options import ScoringOption, ScoringOptions
from probclass_core.sql.contributions import ContributedColumns
from probclass_core.sql.dialects import Dialect, case, find_dialect, plus
from probclass_core.sql.render import Renderer, bisected

_LEAST_EXPONENT = -700.0
"""Where exp of a smaller number raises an error, it is 0."""

_SOURCE = "t"


def to_sql(
    model: Model,
    *,
    dialect: str,
    source: str | Sequence[str],
    options: ScoringOption = None,
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
        options: columns to copy, by default none, and posterior, decision, prior, rarity, rare
            and contributions of `ScoringOptions`, or a mapping of them; no others.
        view: name of a view to create; by default the text is the SELECT alone.

    Returns:
        SQL without a semicolon at its end.

    Raises:
        SpecError: if the dialect is unknown, the engine cannot have one of the names, or the
            options do not fit the model.
        NotSupportedError: if a block has no formula, saying why.
    """
    chosen = ScoringOptions.of_rows(options, "to_sql")
    query = _Query(model, find_dialect(dialect), source, chosen)
    select = query.text()
    if view is None:
        return select
    return f"CREATE VIEW {query.dialect.source(view)} AS\n{select}"


def joint_sql(model: Model, *, dialect: str, source: str | Sequence[str]) -> str:
    """The query of log p(x, c) of each class, in class order, then 1 if `score` refuses the row.

    Raises:
        SpecError, NotSupportedError: as `Model.to_sql`.
    """
    return _Query(model, find_dialect(dialect), source, ScoringOptions()).joint_text()


class _Query:
    """Builds the query; each method adds common table expressions."""

    def __init__(
        self,
        model: Model,
        dialect: Dialect,
        source: str | Sequence[str],
        options: ScoringOptions,
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
        self.ctes: list[tuple[str, str]] = []
        self.refused = False  # whether there is such a column
        self._check_names(self.scorer.schema.names)
        self.contributed = None
        if self.scorer.contributions is not None:
            self.contributed = ContributedColumns(self.scorer.contributions, model, self.renderer)
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

    @property
    def _last(self) -> str:
        return self.ctes[-1][0]

    def _stage(self, name: str, columns: Mapping[str, str]) -> None:
        """Add columns to those of the last common table expression."""
        listed = ",\n    ".join(f"{text} AS {alias}" for alias, text in columns.items())
        self.ctes.append((f"pc_{name}", f"SELECT *,\n    {listed}\n  FROM {self._last}"))

    def _stage_by_class(
        self, name: str, letter: str, texts: Mapping[str, Sequence[str]]
    ) -> dict[str, list[str]]:
        """Add a column for each text, which are by block and class; the names of the columns."""
        names = {
            block: [f"{letter}{number}_{at + 1}" for at in range(self.size)]
            for number, block in enumerate(texts, 1)
        }
        if texts:
            pairs = ((names[block], of_block) for block, of_block in texts.items())
            self._stage(name, {key: one for pair in pairs for key, one in zip(*pair, strict=True)})
        return names

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
        self.ctes.append(("pc_scored", f"SELECT {listed}\n  FROM {self._last}"))
        outputs = ",\n  ".join(
            f"s.o{at} AS {dialect.identifier(name)}"
            for at, name in enumerate(self.scorer.schema.names, 1)
        )
        return f"{self._with()}\nSELECT {outputs}\nFROM pc_scored AS s{dialect.settings}"

    def joint_text(self) -> str:
        joints, densities = self._log_likelihoods()
        refused = "refused" if self.refused else "0"
        columns = ", ".join([*(densities or joints), refused])
        return f"{self._with()}\nSELECT {columns}\nFROM {self._last}"

    def _with(self) -> str:
        parts = [f"{name} AS {self.dialect.cte}(\n  {body}\n)" for name, body in self.ctes]
        return f"WITH {', '.join(parts)}"

    def _log_likelihoods(self) -> tuple[list[str], list[str] | None]:
        """Columns of log p(x, c), and of the unweighted one if the model has weights."""
        model, size = self.model, self.size
        formulas = {name: formula_of(model, name) for name in model.likelihoods}
        blocks: dict[str, list[str]] = {}  # text by class
        for name, formula in formulas.items():
            self._refuse(name, formula)
            terms = formula.terms
            if self.contributed is not None and self.contributed.divides(name):
                blocks[name] = self.contributed.sum_of_columns(name, terms, self._sum_of)
            else:
                blocks[name] = [self._sum_of(terms, at) for at in range(size)]
        within: dict[str, str] = {}
        for number, density in enumerate(model.compiled_bin_densities, 1):
            within[f"within{number}"] = self._sum_of(list(density.terms), 0)
        refused = self.renderer.refused.values()
        self._inputs(refused)
        if within:
            self._stage("within_bins", within)
        if self.contributed is not None and self.contributed.columns:
            self._stage("columns", self.contributed.columns)
        prior = [self.dialect.literal(float(value)) for value in model.log_prior]
        weights, names = model.weights, blocks
        if weights is not None or self.contributed is not None:
            names = self._stage_by_class("blocks", "b", blocks)
        if weights is None:
            joint = {
                f"j{at + 1}": plus([prior[at], *within, *(texts[at] for texts in names.values())])
                for at in range(size)
            }
            self._stage("joint", joint)
            if self.contributed is not None:
                self.contributed.blocks = self.contributed.pool = names
            return list(joint), None
        peaks = {
            f"b{number}": self._peak(columns) for number, columns in enumerate(names.values(), 1)
        }
        self._stage("best", peaks)
        zero, cap = self.dialect.literal(0.0), self.dialect.literal(-CAP)
        pool: dict[str, list[str]] = {}  # text by class
        for number, (block, columns) in enumerate(names.items(), 1):
            if factor := weights.factors.get(block, 0.0):
                below = [f"COALESCE({column} - b{number}, {zero})" for column in columns]
                capped = [self.dialect.function("GREATEST", one, cap) for one in below]
                pool[block] = [f"{one} * {self.renderer.literal(factor)}" for one in capped]
        if self.contributed is not None:
            pool = self._stage_by_class("pool", "w", pool)
            self.contributed.blocks, self.contributed.pool = names, pool
        bias = [self.dialect.literal(float(value)) for value in weights.bias]
        joints = {
            f"j{at + 1}": plus([prior[at], bias[at], *(texts[at] for texts in pool.values())])
            for at in range(size)
        }
        densities = None
        if model.normalized:
            factors = [names[name] for name in model.spec.density_blocks]
            densities = {
                f"d{at + 1}": plus([prior[at], *within, *(columns[at] for columns in factors)])
                for at in range(size)
            }
        self._stage("joint", {**joints, **(densities or {})})
        return list(joints), None if densities is None else list(densities)

    def _refuse(self, name: str, formula: Formula) -> None:
        for number, condition in enumerate(formula.refused):
            decided = self.renderer.condition(condition, 0)
            if not isinstance(decided, bool):
                self.renderer.refused[f"block {name} {number}"] = decided.text
        if formula.complete:
            known = [self.renderer.number(column).text for column in formula.complete]
            some = " OR ".join(f"{column} IS NULL" for column in known)
            every = " AND ".join(f"{column} IS NULL" for column in known)
            self.renderer.refused[f"complete {name}"] = f"(({some}) AND NOT ({every}))"

    def _sum_of(self, terms: Sequence[Expression], at: int) -> str:
        """The sum of a block's terms for one class; constants are added up."""
        values = [self.renderer.expression(term, at) for term in terms]
        constant = math.fsum(
            value for value in values if isinstance(value, float) and math.isfinite(value)
        )
        if any(value == -math.inf for value in values if isinstance(value, float)):
            constant = -math.inf
        texts = [value.within(1) for value in values if not isinstance(value, float)]
        if constant or not texts:
            texts.insert(0, self.dialect.literal(constant))
        return plus(texts)

    def _inputs(self, refused: Any) -> None:
        """The columns of the source, and what is computed of them once for all classes."""
        dialect = self.dialect
        kept = [
            f"{_SOURCE}.{dialect.identifier(name)} AS k{number}"
            for number, name in enumerate(self.passthrough, 1)
        ]
        first, *later = self.renderer.columns.levels
        listed = [*kept, *(f"{text} AS {name}" for name, text in first.items())]
        flags = list(dict.fromkeys(refused))
        raw = [text for text in flags if f"{_SOURCE}." in text]
        if raw:
            listed.append(f"CASE WHEN {_any(raw)} THEN 1 ELSE 0 END AS r0")
        if not listed:
            listed = ["1 AS x0"]
        body = ",\n    ".join(listed)
        self.ctes.append(("pc_input", f"SELECT {body}\n  FROM {self.source} AS {_SOURCE}"))
        for number, columns in enumerate(later, 1):
            if columns:
                self._stage(f"values{number}", columns)
        others = [text for text in flags if text not in raw]
        if raw:
            others.append("r0 = 1")
        self.refused = bool(others)
        if others:
            self._stage("checked", {"refused": f"CASE WHEN {_any(others)} THEN 1 ELSE 0 END"})

    # From log p(x, c) to the posterior.

    def _peak(self, columns: Sequence[str]) -> str:
        """The largest of some columns, or null if all are −∞."""
        largest = self.dialect.function("GREATEST", *columns)
        return f"NULLIF({largest}, {self.dialect.literal(-math.inf)})"

    def _exp(self, text: str) -> str:
        if not self.dialect.raises:
            return f"EXP({text})"
        least = self.dialect.literal(_LEAST_EXPONENT)
        return f"EXP(GREATEST({text}, {least}))"

    def _normalize(
        self, columns: Sequence[str], names: str, instead: Sequence[str]
    ) -> tuple[list[str], str]:
        """Log posteriors of log joints, and their log sum, null if all are −∞.

        Args:
            columns: names of ``k`` log joints.
            names: letter of the new columns.
            instead: SQL of the ``k`` log posteriors of a row that no class explains.
        """
        peak, total = f"{names}_peak", f"{names}_sum"
        self._stage(peak, {f"{names}m": self._peak(columns)})
        terms = [self._exp(f"{column} - {names}m") for column in columns]
        self._stage(total, {f"{names}s": f"LN({plus(terms)})"})
        results = {
            f"{names}{at}": f"COALESCE({column} - {names}m - {names}s, {other})"
            for at, (column, other) in enumerate(zip(columns, instead, strict=True), 1)
        }
        self._stage(f"{names}_posterior", results)
        return list(results), f"{names}m + {names}s"

    def _posterior(self, joints: list[str], densities: list[str] | None) -> tuple[list[str], str]:
        model, literal = self.model, self.dialect.literal
        prior = [self.renderer.literal(float(value)) for value in model.log_prior]
        posterior, log_sum = self._normalize(joints, "q", prior)
        if densities is not None:
            _, log_sum = self._normalize(densities, "u", prior)
        calibrator = model.calibrator
        if isinstance(calibrator, Softmax):
            posterior = self._softmax(calibrator, posterior, prior)
        elif isinstance(calibrator, IsotonicMaps):
            posterior = self._isotonic(calibrator, posterior)
        ratio = self.scorer.log_ratio
        if ratio is not None:
            shifted = {
                f"h{at}": f"{column} + {self.renderer.literal(float(value))}"
                for at, (column, value) in enumerate(zip(posterior, ratio, strict=True), 1)
            }
            self._stage("shifted", shifted)
            instead = [self.renderer.literal(float(value)) for value in model.log_prior + ratio]
            posterior, _ = self._normalize(list(shifted), "g", instead)
        log_density = f"COALESCE({log_sum}, {literal(-math.inf)})"
        if not model.normalized:
            log_density = f"CAST(NULL AS {self.dialect.double})"
        return posterior, log_density

    def _softmax(
        self, calibrator: Softmax, posterior: list[str], prior: Sequence[str]
    ) -> list[str]:
        """exp(s / T + b) of scores s; rows that no class explains keep their posterior."""
        self._stage("most_probable", {"best": self.dialect.function("GREATEST", *posterior)})
        scaled = {}
        for at, (column, bias) in enumerate(zip(posterior, calibrator.bias, strict=True), 1):
            score = f"{column} - best"
            if math.isfinite(calibrator.lowest):
                score = self.dialect.function(
                    "GREATEST", score, self.dialect.literal(calibrator.lowest)
                )
            else:
                score = f"({score})"
            text = f"{score} / {self.renderer.literal(calibrator.temperature)}"
            scaled[f"w{at}"] = plus([text, self.dialect.literal(float(bias))]) if bias else text
        self._stage("scaled", scaled)
        calibrated, _ = self._normalize(list(scaled), "c", posterior)
        kept = {
            f"e{at}": f"CASE WHEN qm IS NULL THEN {before} ELSE {after} END"
            for at, (before, after) in enumerate(zip(posterior, calibrated, strict=True), 1)
        }
        self._stage("calibrated", kept)
        return list(kept)

    def _isotonic(self, calibrator: IsotonicMaps, posterior: list[str]) -> list[str]:
        """Maps that are linear between knots; rows that no class explains keep their posterior."""
        self._stage(
            "uncalibrated",
            {f"a{at}": self._probability(column) for at, column in enumerate(posterior, 1)},
        )
        literal, mapped = self.renderer.literal, {}
        for at, (knots, values) in enumerate(calibrator.maps, 1):
            cases = [f"WHEN a{at} <= {literal(float(knots[0]))} THEN {literal(float(values[0]))}"]
            for low in range(len(knots) - 1):
                slope = (values[low + 1] - values[low]) / (knots[low + 1] - knots[low])
                cases.append(
                    f"WHEN a{at} < {literal(float(knots[low + 1]))} THEN "
                    f"(a{at} - {literal(float(knots[low]))}) * {literal(float(slope))} "
                    f"+ {literal(float(values[low]))}"
                )
            mapped[f"i{at}"] = f"CASE {' '.join(cases)} ELSE {literal(float(values[-1]))} END"
        self._stage("mapped", mapped)
        zero = self.dialect.literal(0.0)
        self._stage("total", {"total": f"NULLIF({plus(list(mapped))}, {zero})"})
        minus_infinity = self.dialect.literal(-math.inf)
        kept = {}
        for at, (name, before) in enumerate(zip(mapped, posterior, strict=True), 1):
            log = f"CASE WHEN {name} > {zero} THEN LN({name} / total) ELSE {minus_infinity} END"
            kept[f"e{at}"] = f"CASE WHEN qm IS NULL OR total IS NULL THEN {before} ELSE {log} END"
        self._stage("calibrated", kept)
        return list(kept)

    # From the posterior to the scored columns.

    def _probability(self, log: str) -> str:
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
            likelihoods = {
                f"l{at}": f"j{at} - {self.renderer.literal(float(value))}"
                for at, value in enumerate(prior, 1)
            }
            self._stage("likelihood", likelihoods)
            even = [self.renderer.literal(-math.log(size))] * size
            criterion, _ = self._normalize(list(likelihoods), "o", even)
        probabilities = {
            f"p{at}": self._probability(column) for at, column in enumerate(posterior, 1)
        }
        self._stage("probabilities", {**probabilities, "density": log_density})
        p = list(probabilities)
        expected = None
        if rule.costs is None:
            self._stage("largest", {"best_of": dialect.function("GREATEST", *criterion)})
            tests = [f"{column} = best_of" for column in criterion]
        else:
            of_criterion = p
            if rule.rule.by == "ml":
                logs = {f"r{at}": self._probability(each) for at, each in enumerate(criterion, 1)}
                self._stage("even", logs)
                of_criterion = list(logs)
            costs = self._costs(of_criterion, rule.costs, "z")
            self._stage("costs", costs)
            self._stage("least", {"best_of": dialect.function("LEAST", *costs)})
            tests = [f"{column} = best_of" for column in costs]
            if rule.rule.by == "ml":
                costs = self._costs(p, rule.costs, "y")
                self._stage("expected", costs)
            expected = list(costs)
        self._stage("choice", {"chosen": case(tests, [str(at) for at in range(1, size + 1)])})
        chosen = [f"chosen = {at}" for at in range(1, size + 1)]
        probability = case(chosen, p)
        texts = {"prob": probability}
        if expected is not None:
            texts["cost"] = case(chosen, expected)
        self._stage("chosen_class", texts)
        return self._scored(p, chosen)

    def _costs(self, p: Sequence[str], costs: FloatArray, letter: str) -> dict[str, str]:
        """Expected cost of each prediction."""
        return {
            f"{letter}{action + 1}": plus(
                [
                    column if cost == 1.0 else f"{column} * {self.renderer.literal(float(cost))}"
                    for column, cost in zip(p, costs[:, action], strict=True)
                    if cost
                ]
                or [self.dialect.literal(0.0)]
            )
            for action in range(self.size)
        }

    def _scored(self, p: Sequence[str], chosen: Sequence[str]) -> list[str]:
        rule, dialect = self.rule, self.dialect
        reasons = []
        if rule.min_log_density is not None:
            least = self.renderer.literal(rule.min_log_density)
            rare = f"density < {least} OR density = {dialect.literal(-math.inf)}"
            reasons.append((rare, "density"))
        if rule.rule.min_probability is not None:
            least = self.renderer.literal(rule.rule.min_probability)
            reasons.append((f"prob < {least}", "probability"))
        prediction = case(
            chosen, [dialect.value(value) for value in self.model.classes.to_pylist()]
        )
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
            contributed = self.contributed.scored(self._stage, self.posterior, *self.joint)
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
        limits, shares = (quantiles[name].to_pylist() for name in ("log_density", "quantile"))
        literal = self.dialect.literal
        return bisected("density", [*map(literal, limits)], [*map(literal, shares), literal(1.0)])


def formula_of(model: Model, block: str) -> Formula:
    """The formula of a block.

    Raises:
        NotSupportedError: if it has none, saying why.
    """
    estimator = next(each.estimator for each in model.spec.blocks if str(each.name) == block)
    likelihood = model.likelihoods[block]
    if not isinstance(likelihood, FormulaLikelihood):
        raise NotSupportedError(
            f"SQL cannot express block {block!r}: the estimator {estimator!r} does not write its "
            "density as a formula; score it by pc.score."
        )
    try:
        formula = likelihood.formula()
    except NotSupportedError as error:
        raise NotSupportedError(
            f"SQL cannot express block {block!r} ({estimator}): {error}"
        ) from error
    if formula.version > FORMULA_VERSION:
        raise NotSupportedError(
            f"block {block!r} ({estimator}) has a formula of version {formula.version}, and this "
            f"probclass reads up to version {FORMULA_VERSION}; install a newer one."
        )
    return formula


def _any(conditions: Sequence[str]) -> str:
    """Whether one is true; in groups, since engines limit how deep expressions are."""
    step = 100
    if len(conditions) <= step:
        return " OR ".join(conditions)
    starts = range(0, len(conditions), step)
    return _any([f"({_any(conditions[start : start + step])})" for start in starts])
