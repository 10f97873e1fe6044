"""The columns of contributions in the query that scores a table; see `model.contributions`.

Values are by class until the class is known: log p(x_B | c) of each block and of each column of
blocks that are sums over columns, and what each block adds to the posterior. Then the values of two
classes are subtracted, or those of one are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from probclass_core.errors import NotSupportedError
from probclass_core.estimation.formulas import Column, Expression, Lookup
from probclass_core.model.contributions import ROUNDING, Contributions
from probclass_core.model.model import Model
from probclass_core.sql.dialects import Stages, numbered, pick, plus, position, sums
from probclass_core.sql.render import Renderer, nodes


class ContributedColumns:
    """Builds the columns.

    Args:
        contributions: what is computed.
        model: the model.
        renderer: of the query.
        stages: the query.

    Attributes:
        columns: texts of log p(x_j | c) of the columns of blocks that are sums over several, by
            the names of the query's columns that they become.
        blocks: names of the query's columns of log p(x_B | c), by block and class.
        pool: of what each block adds to the posterior, likewise.
    """

    def __init__(
        self, contributions: Contributions, model: Model, renderer: Renderer, stages: Stages
    ) -> None:
        self._contributions, self._model, self._renderer = contributions, model, renderer
        self._stage, self._each = stages.extend, stages.each
        self._size = len(model.classes)
        both = contributions.log_odds_terms, contributions.surprise_terms
        self._divided = {one.name: one.block.columns for terms in both for one in terms.divided}
        self._of_column: dict[tuple[str, str], list[str]] = {}
        self.columns: dict[str, str] = {}
        self.blocks: Mapping[str, Sequence[str]] = {}
        self.pool: Mapping[str, Sequence[str]] = {}

    def divides(self, block: str) -> bool:
        """Whether the terms of a block are those of its columns, of which it has several."""
        return block in self._divided

    def sum_of_columns(
        self,
        block: str,
        terms: Sequence[Expression],
        sum_of: Callable[[Sequence[Expression], int], str],
    ) -> list[str]:
        """Text of log p(x_B | c) of each class: the sum of columns that are added to `columns`.

        Args:
            block: name of the block.
            terms: its terms.
            sum_of: text of the sum of some terms for a class.

        Raises:
            NotSupportedError: if a term is not that of one column.
        """
        of_column: dict[str, list[Expression]] = {name: [] for name in self._divided[block]}
        for term in terms:
            names = _columns_of(term).intersection(of_column)
            if len(names) != 1:
                raise NotSupportedError(
                    f"SQL cannot divide block {block!r} by columns: a term of its formula is of "
                    f"{len(names)} columns. Use pc.score."
                )
            of_column[names.pop()].append(term)
        for name, own in of_column.items():
            number = len(self._of_column) + 1
            texts = [sum_of(own, at) for at in range(self._size)]
            by_class = numbered(f"y{number}_", texts)
            self._of_column[block, name] = list(by_class)
            self.columns |= by_class
        return sums(self._of_column[block, name] for name in of_column)

    def scored(self, posterior: Sequence[str], joint: Sequence[str], log_sum: str) -> list[str]:
        """SQL of the scored columns, in the order of `Contributions.columns`.

        Args:
            posterior: names of the log posteriors.
            joint: names of log p(x, c) of the density.
            log_sum: name of log Σ exp of these relative to the largest; null if all are −∞.
        """
        scored: list[str] = []
        if self._contributions.log_odds_names:
            texts = self._log_odds(posterior)
            value = self._renderer.dialect.value
            scored.append(pick("rival", [value(one) for one in self._model.classes.to_pylist()]))
            scored += [texts[name] for name in self._contributions.log_odds_names]
        if self._contributions.surprise_names:
            texts = self._surprise(joint, log_sum)
            scored += [texts[name] for name in self._contributions.surprise_names]
        return scored

    def _log_odds(self, posterior: Sequence[str]) -> dict[str, str]:
        """Texts of the terms of the log odds, by name; adds the runner-up as ``rival``."""
        dialect, model = self._renderer.dialect, self._model
        classes = list(enumerate(posterior, 1))
        no = dialect.literal(-math.inf)
        others = [f"CASE WHEN chosen = {at} THEN {no} ELSE {log} END" for at, log in classes]
        self._stage("others", {"best_other": dialect.function("GREATEST", *others)})
        tests = [f"chosen <> {at} AND {log} = best_other" for at, log in classes]
        self._stage("runner_up", {"rival": position(tests)})
        terms = self._contributions.log_odds_terms
        sums: dict[str, list[str]] = {name: [] for name in terms.names}
        for name, one in terms.whole:
            sums[name].append(self._difference(self.pool[one.name]))
        for number, one in enumerate(terms.divided):
            of_column = {
                name: self._difference(self._of_column[one.name, name])
                for name in one.block.columns
            }
            if one.factor is not None:
                whole = self._difference(self.pool[one.name])
                rest = self._limit(number, of_column, whole, one.factor)
                sums[terms.of_block[one.name]].append(rest)
            for name, text in of_column.items():
                sums[name].append(text)
        texts = {name: plus(parts or [dialect.literal(0.0)]) for name, parts in sums.items()}
        if model.weights is None:
            texts = {
                name: f"CASE WHEN qm IS NOT NULL THEN {text} END" for name, text in texts.items()
            }
        terms_of_classes = {"prior": self._contributions.log_prior}
        if model.weights is not None:
            terms_of_classes["bias"] = model.weights.bias
        for name, of_class in terms_of_classes.items():
            literals = [self._renderer.literal(float(value)) for value in of_class]
            texts[terms.others[name]] = self._difference(literals)
        if "calibration" in terms.others:
            del texts[terms.others["calibration"]]
            texts = dict(zip(texts, self._each("terms", "ct", texts.values()), strict=True))
            zero, infinity = dialect.literal(0.0), dialect.literal(math.inf)
            known = [f"COALESCE({name}, {zero})" for name in texts.values()]
            self._stage("uncalibrated_odds", {"odds": plus(known)})
            change = f"{self._difference(posterior)} - odds"
            texts[terms.others["calibration"]] = (
                f"CASE WHEN ABS(odds) < {infinity} THEN {change} END"
            )
        return texts

    def _limit(self, number: int, of_column: dict[str, str], whole: str, factor: float) -> str:
        """Make texts of columns those of weighted ones, 0 where the block is limited.

        Returns:
            What the block adds as a whole.
        """
        dialect = self._renderer.dialect
        names = {name: f"cl{number}_{at}" for at, name in enumerate(of_column)}
        weight = self._renderer.literal(factor)
        texts = {names[name]: f"{text} * {weight}" for name, text in of_column.items()}
        self._stage(f"parts{number}", {**texts, f"cw{number}": whole})
        size = dialect.function("GREATEST", f"ABS(cw{number})", dialect.literal(1.0))
        is_sum = f"ABS(cw{number} - ({plus(list(texts))})) <= {size} * {dialect.literal(ROUNDING)}"
        self._stage(f"limit{number}", {f"ci{number}": f"CASE WHEN {is_sum} THEN 1 ELSE 0 END"})
        zero = dialect.literal(0.0)
        for name, column in names.items():
            of_column[name] = f"CASE WHEN ci{number} = 1 THEN {column} ELSE {zero} END"
        return f"CASE WHEN ci{number} = 1 THEN {zero} ELSE cw{number} END"

    def _surprise(self, joint: Sequence[str], log_sum: str) -> dict[str, str]:
        """Texts of the terms of −log p(x), by name."""
        dialect = self._renderer.dialect
        self._stage("top", {"top": dialect.function("GREATEST", *joint)})
        self._stage("explaining", {"explains": position([f"{column} = top" for column in joint])})
        terms = self._contributions.surprise_terms
        sums: dict[str, list[str]] = {name: [] for name in terms.names}
        for name, one in terms.whole:
            sums[name].append(pick("explains", self.blocks[one.name]))
        for one in terms.divided:
            for name in one.block.columns:
                sums[name].append(pick("explains", self._of_column[one.name, name]))
        for number, density in enumerate(self._model.compiled_bin_densities, 1):
            sums[terms.of_column[density.feature]].append(f"within{number}")
        zero = dialect.literal(0.0)
        texts = {name: f"{zero} - ({plus(parts)})" for name, parts in sums.items() if parts}
        for name in terms.others.values():
            prior = [self._renderer.literal(float(value)) for value in self._model.log_prior]
            rest = f"{zero} - {log_sum} - {pick('explains', prior)}"
            impossible = f"top = {dialect.literal(-math.inf)}"
            texts[name] = f"CASE WHEN {impossible} THEN {zero} ELSE {rest} END"
        return texts

    def _difference(self, by_class: Sequence[str]) -> str:
        """The value of the chosen class minus that of its runner-up."""
        return f"({pick('chosen', by_class)} - {pick('rival', by_class)})"


def _columns_of(term: Expression) -> set[str]:
    """The columns of a term of a formula."""
    names = set()
    for node in nodes(term):
        if isinstance(node, Column):
            names.add(node.name)
        elif isinstance(node, Lookup):
            names.update(code.column for code in node.codes)
    return names
