"""Write the table of docs/estimators.md that says what each estimator offers, from its class.

python tests/docs/estimators_table.py
"""

from __future__ import annotations

import inspect
import re

import pyarrow as pa
from pages import ROOT

import probclass_core as pc
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.contract import Estimator, LeaveOneOut
from probclass_core.estimation.statistics import bind
from probclass_core.plugins.manager import estimator_plugins

PAGE = ROOT / "docs" / "estimators.md"
BEGIN, END = "<!-- written by tests/docs/estimators_table.py -->\n", "<!-- end -->"
ROWS = pa.table(
    {"n": [1.0, 2.0, 0.0, 4.0, 1.0, 6.0], "c": ["a", "b", "a", "a", "b", "b"], "y": [*"aaabbb"]}
)
HEAD = ("estimator", "statistics", "scores in SQL", "trains in SQL", "leave-one-out", "evidence")


def written() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    lines = [HEAD, ("---",) * len(HEAD), *(_row(name) for name in estimator_plugins())]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _row(name: str) -> tuple[str, ...]:
    kind = pc.estimators()[name]
    column = "c" if kind.models is not None and not kind.models.accepts(pa.float64()) else "n"
    spec = pc.ModelSpec("y", [pc.Block(name, [column])])
    model = pc.fit(ROWS, spec)
    (bound,) = bind(spec, model.features).values()
    trains = bound.aggregates() is not None
    offers = (
        _scores_in_sql(model),
        trains,
        isinstance(bound, LeaveOneOut),
        kind.has_evidence(),
    )
    return f"[`{name}`](#{name})", _statistics(kind), *("yes" if each else "" for each in offers)


def _scores_in_sql(model: pc.Model) -> bool:
    try:
        model.to_sql(dialect="duckdb", source="rows")
    except NotSupportedError:
        return False
    return True


def _statistics(kind: type[Estimator]) -> str:
    """What the docstring says about the statistics, or that of the class it derives from."""
    for base in kind.__mro__:
        found = re.search(
            r"Statistics(?: and parameters)?: (.*?)[.;:]\s",
            inspect.cleandoc(base.__doc__ or ""),
            re.S,
        )
        if found:
            return " ".join(found[1].replace("``", "`").split())
    raise AssertionError(f"the docstring of {kind.__name__} does not say its statistics")


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
