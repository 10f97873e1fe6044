"""Options that several commands take, alone and in groups, and what makes their values of text.

A group is a frozen dataclass whose fields are options; see `app`. Classes of the library are
groups as well: `FIELDS` has what is written in another way as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from probclass_core.arguments import checked_number
from probclass_core.cli import messages
from probclass_core.errors import SpecError
from probclass_core.io.filters import Condition, parse_conditions, split_values
from probclass_core.spec.files import read_values

if TYPE_CHECKING:
    from probclass_core import DecisionRule, Model, ModelStore, Watch
    from probclass_core.store.records import ModelVersion


@dataclass(frozen=True)
class Parser:
    """How the text of an option becomes a value; part of an annotation.

    Attributes:
        parse: function of the texts of an option, and of its name.
        repeats: whether the option may be repeated; if not, `parse` gets a text.
    """

    parse: Callable[[Any, str], Any]
    repeats: bool = True


@dataclass(frozen=True)
class MadeOf:
    """A frozen class of options that a value is made of; part of an annotation.

    Attributes:
        options: gives the class; its method ``parsed``, if there is one, gives the value.
    """

    options: Callable[[], type[Any]]


def parse_where(texts: Sequence[str], option: str = "--where") -> list[Condition]:
    """Parse conditions, as `filters.parse_conditions` does.

    Raises:
        SpecError: if a text is not a condition.
    """
    return [one for text in texts for one in parse_conditions(text, option)]


def _pairs(
    texts: Iterable[str], option: str, form: str, *, last: bool = False
) -> Iterator[tuple[str, str]]:
    """Names and values of ``NAME=VALUE``.

    Args:
        texts: the texts.
        option: name of the option.
        form: what to write.
        last: whether a name may contain ``=``, and not a value.

    Raises:
        SpecError: if a text is not such a pair, or a name is given twice.
    """
    names: set[str] = set()
    for text in texts:
        split = text.rpartition("=") if last else text.partition("=")
        name, _, value = map(str.strip, split)
        if not (name and value) or name[-1] in "<>!" or value[0] == "=":
            raise SpecError(f"{option} {text!r}: write {form}.")
        if name in names:
            raise SpecError(f"{option} {text!r}: {name!r} is given twice; write {form}.")
        names.add(name)
        yield name, value


def parse_partition(texts: Sequence[str], option: str = "--partition") -> dict[str, str]:
    """Parse values of partition columns from ``COLUMN=VALUE``.

    Raises:
        SpecError: if a text is not such a pair, or a column is given twice.
    """
    form = f"COLUMN=VALUE, as in {option} month=2014-01, and of several partitions a condition, as "
    return dict(_pairs(texts, option, form + 'in --where "month in 2014-01,2014-02"'))


def parse_names(texts: Sequence[str], option: str) -> list[str]:
    """Parse names from repeated or comma-separated text.

    Raises:
        SpecError: if a name is empty or a quote is not closed.
    """
    names = []
    for text in texts:
        items = split_values(text)
        if not items:
            raise SpecError(
                f"{option} {text!r}: write names separated by commas, as in {option} time,air."
            )
        names.extend(items)
    return names


def parse_numbers(texts: Sequence[str], option: str) -> dict[str, float]:
    """Parse numbers by name, ``NAME=NUMBER,…``.

    Raises:
        SpecError: if a text is not such a list, or a name is given twice.
    """
    items = [item for text in texts for item in split_values(text) or [text]]
    pairs = dict(_pairs(items, option, "NAME=NUMBER,…", last=True))
    try:
        return {name: float(number) for name, number in pairs.items()}
    except ValueError:
        raise SpecError(f"{option} {' '.join(texts)!r}: write NAME=NUMBER,….") from None


def parse_half_life(text: str, option: str = "--half-life") -> float | Literal["auto"]:
    """Parse a number of partitions, or ``auto``.

    Raises:
        SpecError: if it is neither.
    """
    return "auto" if text == "auto" else checked_number(option, text, above=True)


def read_costs(text: str, option: str) -> Any:
    """Read the costs of mistakes from the file that an option names.

    Raises:
        SpecError: if the file cannot be read.
    """
    return read_values(Path(text), "the costs")


Source = Annotated[
    str,
    "SOURCE: Table to read: Parquet, CSV or JSON lines, as a file, a (Hive-partitioned) directory "
    "or a pattern such as 'trips/*.csv'; a Delta table, iceberg://catalog/namespace.table, or a "
    "table of a database as duckdb://file.db::table, sqlite://… or postgresql://….",
]
Ref = Annotated[
    str,
    "REF: Model: name@alias, name@id, or the name of a model with one version; "
    "name@alias@previous is the version before.",
]
_STORE = "URI: Model store: a directory or any fsspec URI."
_ENVIRONMENT = {"envvar": "PROBCLASS_STORE", "show_envvar": True}
Store = Annotated[str, _STORE, _ENVIRONMENT]
OptionalStore = Annotated[str | None, _STORE, _ENVIRONMENT]
Aliases = Annotated[Sequence[str], "--alias ALIAS: Promote the new version to this alias."]
Columns = Annotated[
    Any,
    "COLUMN,…: Columns to copy to the scored table; by default all, and none in a query.",
    Parser(parse_names),
]
Names = Annotated[Sequence[str], Parser(parse_names)]
DryRun = Annotated[bool, "List what would be removed; remove nothing."]
Count = Annotated[int, click.IntRange(min=1)]
Age = Annotated[float, click.FloatRange(min=0, max=100_000)]


@dataclass(frozen=True, kw_only=True)
class EveryCommand:
    """What every command takes.

    Attributes:
        as_json: --json: print one line of JSON, for scripts.
        verbose: --verbose/-v: log steps with times on stderr; -vv also logs details and
            tracebacks.
        quiet: --quiet/-q: show no progress and no warnings, only errors.
    """

    as_json: bool = False
    verbose: Annotated[int, {"count": True, "show_default": False}] = 0
    quiet: bool = False

    def begin(self) -> None:
        """Handle the messages of the command that runs as the options say."""
        messages.begin(-1 if self.quiet else self.verbose)


@dataclass(frozen=True)
class StoredModel:
    """A model in a store."""

    model: Ref
    store: Store = field(kw_only=True)

    @cached_property
    def models(self) -> ModelStore:
        """The store."""
        from probclass_core import ModelStore

        return ModelStore(self.store)

    @cached_property
    def version(self) -> ModelVersion:
        """The version that the reference names."""
        return self.models.resolve(self.model)

    def load(self) -> Model:
        """The model."""
        return self.models.load(self.version)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a table to read.

    Attributes:
        partition: COLUMN=VALUE: read only this partition; repeat for each partition column.
        where: CONDITION: read only rows that meet this condition: 'month >= 2013-01',
            'wind in NW,SE'; if repeated, rows that meet all.
    """

    partition: Annotated[dict[str, str] | None, Parser(parse_partition)] = None
    where: Annotated[Any, Parser(parse_where)] = None


@dataclass(frozen=True, kw_only=True)
class WorkerRows(Rows):
    """Rows of a table to read, and how many threads read them.

    Attributes:
        workers: number of workers; by default all processors.
    """

    workers: Count | None = None


@dataclass(frozen=True, kw_only=True)
class EngineRows(WorkerRows):
    """Rows of a table to read, and the engine and workers that read them.

    Attributes:
        engine: NAME: engine that runs the work: threads (the default), processes, spark, or the
            name that a plugin registers.
    """

    engine: str | None = None


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What to check, from which value on, and what to do.

    Attributes:
        watch: FILE|off: thresholds and actions of checks, as TOML or JSON, or in the table watch of
            such a file; off turns all checks off. By default all checks warn.
        fail_on: CHECK,…: checks that fail instead of warning, such as nulls,missing.
    """

    watch: Path | None = None
    fail_on: Names = ()

    def parsed(self) -> Watch | None:
        """The watch that the options describe; None for none.

        Raises:
            SpecError: if a check or threshold is invalid, or the file cannot be read.
        """
        from probclass_core import Watch

        if self.watch is not None and self.watch.name == "off":
            if self.fail_on:
                raise SpecError(
                    "--fail-on needs checks, and --watch off makes none; leave one out."
                )
            return None
        values = {} if self.watch is None else read_values(self.watch, "the watch")
        if isinstance(values, dict) and isinstance(values.get("watch"), dict):
            values = values["watch"]
        if self.fail_on and isinstance(values, dict):
            fail = list(dict.fromkeys([*values.get("fail", []), *self.fail_on]))
            values = {**values, "fail": fail}
        return Watch.from_dict(values)


def _rule() -> type[DecisionRule]:
    from probclass_core import DecisionRule

    return DecisionRule


ChecksOption = Annotated[Any, MadeOf(lambda: Checks)]

FIELDS: Mapping[str, Any] = {
    "DecisionRule.by": Annotated[
        str,
        "--decision map|ml: Predict the class of largest posterior (map) or of largest likelihood "
        "(ml).",
    ],
    "DecisionRule.costs": Annotated[
        Any,
        "FILE: Costs of mistakes, by true class and prediction: TOML or JSON.",
        Parser(read_costs, repeats=False),
    ],
    "RowOptions.columns": Columns,
    "RowOptions.prior": Annotated[
        Any,
        "SHARES: Class shares to have the posteriors under, such as good=0.6,bad=0.4.",
        Parser(parse_numbers),
    ],
    "ScoringOptions.watch": Annotated[Any, MadeOf(lambda: Checks)],
    "RowOptions.decision": Annotated[Any, MadeOf(_rule)],
    "Partitions.where": Annotated[
        Any,
        "--partitions CONDITION: Consider only partitions that meet this condition: 'month >= "
        "2013-01'; if repeated, those that meet all.",
        Parser(parse_where),
    ],
    "Partitions.first": None,
    "Partitions.last": None,
    "Partitions.scored_by": Annotated[
        list[str],
        "NAME@VERSION: Consider only partitions that this version scored, such as one that was "
        "rolled back; repeat for several.",
    ],
    "Gate.floor": Annotated[
        Any,
        "prior|none: What the version must reach in any case: the log loss and metric of the class "
        "prior, or nothing.",
        Parser(lambda text, _: None if text == "none" else text, repeats=False),
    ],
}
"""Fields of classes of the library that text gives in another form; None for those it does not."""
