"""The specification of a model: blocks of columns, an estimator for each, and a class prior.

A `ModelSpec` is a frozen value that is independent of data: column types are checked when a table
is read, and an estimator's options by the estimator.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from probclass_core.arguments import ColumnName, checked_number, checks_arguments
from probclass_core.attached import ModelSpecMethods
from probclass_core.display import Part, Report, ShortRepr, TablePart, counted
from probclass_core.errors import SpecError, check_known, one_of, shown
from probclass_core.plugins.manager import check_option_names, find_conditional, find_estimator
from probclass_core.spec.files import read_values

Prior = str | Mapping[str, float]
Effort = Literal["fast", "default", "best"]
"""How much `ModelSpec.auto` tries."""

OnScarce = Literal["pool", "error"]
"""What to do if the rows do not suffice for an estimate."""

Blocks: TypeAlias = (
    "Block | Iterable[Block | Mapping[str, Any]] | Mapping[str, str | Sequence[str]]"
)
"""Forms in which a model's blocks can be given; see `ModelSpec`."""

SPEC_HINT = "make one with ModelSpec.from_file"
"""How to fix a call that passes the path of a spec instead of a spec."""

_NAMED_PRIORS = ("empirical", "uniform")
BlockWeightsOption = Literal["fit"] | Mapping[str, float] | None
"""Weights of blocks: fitted, given by block name, or None for the product of the blocks."""

GroupsOption = str | Sequence[str] | None
"""Columns whose values tell the groups that weights are fitted across; see `ModelSpec.groups`."""

HalfLifeOption = Literal["auto"] | float | None
"""Partitions after which rows count half; see `ModelSpec.half_life`."""

PARTITIONS = "partitions"
"""The groups of a spec by default: the partitions of the table."""

_MOST_BLOCKS = 200
"""Number of blocks that the table of a spec shows."""

TABLE_NAMES = (
    "priors",
    "classes",
    "sample",
    "block_weights",
    "bin_densities",
    "calibration",
    "density_quantiles",
)


def category_text(value: object) -> str:
    """A category or class as text: ``true`` or ``false`` for a bool, ``3`` for an integer."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True, init=False, repr=False)
class Block(ShortRepr):
    """Columns that one estimator models jointly, given the class and perhaps other columns.

    Attributes:
        estimator: name of a registered likelihood estimator.
        columns: the features that the block models, in order: columns of the table, or parts of
            its dates and times such as ``hour(pickup)``. A column of that name comes first. Parts:
            ``year``, ``month``, ``day``, ``day_of_year``, ``weekday`` (Monday 1 to Sunday 7),
            ``hour``, ``minute``, and ``time_of_day`` (hours in [0, 24)); see the guide on dates.
            ``number(age)`` is the number that the text ``age`` is, and null for other texts.
        name: name that is unique in the model; by default that of the estimator, numbered if
            several blocks share it.
        options: options of the estimator, as plain JSON values.
        given: columns that the block is conditioned on, in order: its factor of the likelihood is
            p(columns | given, class). They are features too, but this block does not model them.

    Raises:
        SpecError: if there are no columns, one is listed twice, JSON lacks an option's value, or
            the estimator is installed and declares no such option. Its other checks, such as of
            the values of options, follow when a model is fitted.
    """

    estimator: str
    columns: tuple[str, ...]
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    def __init__(
        self,
        estimator: str,
        columns: str | Sequence[str],
        name: str | None = None,
        *,
        given: str | Sequence[str] = (),
        **options: Any,
    ) -> None:
        where = f"block {shown(estimator if name is None else name)}"
        if not isinstance(estimator, str) or not estimator:
            raise SpecError(f"{where}: estimator must be a name, got {shown(estimator)}.")
        if name is not None and not isinstance(name, str):
            raise SpecError(f"{where}: name must be text, got {shown(name)}.")
        modeled = _column_names(columns)
        if not modeled:
            raise SpecError(
                f"{where}: columns must be one or more column names, got {shown(columns)}."
            )
        conditions = _column_names(given)
        if conditions is None:
            raise SpecError(f"{where}: given must be column names, got {shown(given)}.")
        inputs = (*modeled, *conditions)
        for column in inputs:
            if inputs.count(column) > 1:
                also = " and also given" if column in modeled and column in conditions else ""
                raise SpecError(
                    f"{where}: column {column!r} is listed twice{also}; remove it from one place."
                )
        plain = {key: _plain(value, f"{where}, option {key!r}") for key, value in options.items()}
        vars(self).update(
            estimator=estimator, columns=modeled, name=name, options=plain, given=conditions
        )
        check_option_names(estimator, options, given=bool(conditions))

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))

    @property
    def estimator_class(self) -> Any:
        """The class of the estimator, which may depend on whether the block has given columns.

        Raises:
            PluginError: if the estimator is unknown.
            SpecError: if it does not model columns given others, and the block has some.
        """
        if self.given:
            return find_conditional(self.estimator)
        return find_estimator(self.estimator).estimator

    @property
    def state_grows(self) -> bool:
        """Whether its statistics grow with the rows; raises like `estimator_class`."""
        grows: bool = self.estimator_class.grows(self.options)
        return grows

    @property
    def inputs(self) -> tuple[str, ...]:
        """The features of the block: those that it models, then those given."""
        return (*self.columns, *self.given)

    def to_dict(self) -> dict[str, Any]:
        """The block as plain values, as in a TOML, YAML or JSON file."""
        given = {"given": list(self.given)} if self.given else {}
        name = {"name": self.name} if self.name is not None else {}
        columns = {"columns": list(self.columns), **given}
        return {"estimator": self.estimator, **columns, **name, **self.options}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Block:
        """The inverse of `to_dict`.

        Raises:
            SpecError: if ``estimator`` or ``columns`` is missing, or the block is not valid.
        """
        if not isinstance(values, Mapping):
            raise SpecError(f"a block must be a table of keys, got {values!r}.")
        missing = [key for key in ("estimator", "columns") if key not in values]
        if missing:
            raise SpecError(f"a block needs {missing[0]!r}; it has {one_of(values)}.")
        return cls(**{str(key): value for key, value in values.items()})


@dataclass(frozen=True, init=False, repr=False)
class ModelSpec(Report, ModelSpecMethods):
    """A class prior times blocks, the factors of the likelihood.

    Blocks are independent of one another given the class, except that a block may be given columns
    of other blocks (`Block.given`). So a spec can be any Bayesian network whose root is the class.

    Attributes:
        label: the class column; None for a density of all rows, whose model has one class.
        blocks: factors of the likelihood, all of them named. They can be given as blocks, as tables
            such as `Block.from_dict` takes, or as columns by estimator, such as
            ``{"gaussian_diagonal": ["x", "y"], "categorical": "color"}``.
        prior: ``"empirical"`` (n_i / n), ``"uniform"``, or a probability for every class.
        weight: the column of sample weights, or None.
        block_weights: ``"fit"`` weighs the log-likelihood of each block by a number that is fitted
            on the training rows, so that columns may be in several blocks; numbers by block name
            are taken as they are, and other blocks weigh 1; None is the product of the blocks. See
            `block_weights`.
        groups: column, or columns, whose values tell which rows are alike, such as a day or a
            customer. Fitted weights trust a block by what it says of groups that it was not trained
            on, as new rows will be: up to twelve groups are left out in turn, more are put together
            in order. So is the rarity of rows measured. ``"partitions"``, the default, are those of
            a partitioned table; None leaves out single rows, which may look like rows of training.
        half_life: number of partitions after which rows count half as much, in the order of the
            partitions; None if rows of any age count the same. ``"auto"`` compares a few where
            weights are fitted across partitions: each of the latest is predicted from those before
            it, see `model.finalize`.
        on_scarce: what to do if the rows do not suffice for an estimate, because a class has no
            value of a column, say: ``"pool"`` takes the estimate of all classes together, and
            records it in ``model.training["notes"]``; ``"error"`` refuses to fit.
        max_classes: largest number of classes. A label with more values is refused, because it is a
            measurement or an id. By default it is 10,000; but more than 100 classes need 5 rows
            each, on average, and more than 1,000 that are integers need 50.
        density: names of blocks that log p(x) is made of, and no posterior: each column is in one
            of them. By default log p(x) is the product of all blocks, if each column is in one.
        notes: decisions of `auto`, as sentences; they are not part of the spec's identity, and
            `to_dict` leaves them out. A stored model has them.

    Raises:
        SpecError: if two blocks model one column without block weights, two blocks have one name,
            blocks are given each other's columns in a cycle without block weights, the prior is not
            a probability distribution, a block weight is not a number of at least 0 or names no
            block, `groups` are not names of columns or are the label, `half_life` is not a number
            above 0, `max_classes` is not a whole number of at least 1, or there is no label and a
            prior, weights, groups, a half-life ``"auto"`` or `max_classes`, which are about
            classes.
    """

    label: str | None
    blocks: tuple[Block, ...]
    prior: Prior = "empirical"
    weight: str | None = None
    block_weights: BlockWeightsOption = None
    groups: GroupsOption = PARTITIONS
    half_life: HalfLifeOption = None
    on_scarce: OnScarce = "pool"
    max_classes: int | None = None
    density: tuple[str, ...] = ()
    notes: Sequence[str] = field(default=(), compare=False)

    @checks_arguments
    def __init__(
        self,
        label: ColumnName | None,
        blocks: Blocks,
        prior: Prior = "empirical",
        weight: ColumnName | None = None,
        block_weights: BlockWeightsOption = None,
        groups: GroupsOption = PARTITIONS,
        half_life: HalfLifeOption = None,
        on_scarce: OnScarce = "pool",
        max_classes: int | None = None,
        density: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        if max_classes is not None:
            checked_number("max_classes", max_classes, 1, whole=True)
        named = _name_blocks(_blocks(blocks))
        vars(self).update(
            label=label,
            blocks=named,
            prior=_check_prior(prior),
            weight=weight,
            block_weights=_check_block_weights(block_weights, named),
            groups=check_groups(groups, label),
            half_life=_check_half_life(half_life),
            on_scarce=on_scarce,
            max_classes=max_classes,
            density=tuple(density),
            notes=notes,
        )
        self._check_label()
        self._check_columns()
        self._check_density()

    def _check_label(self) -> None:
        """Refuse what means nothing without a label."""
        if self.label is not None:
            return
        defaults = {each.name: each.default for each in dataclasses.fields(self)}
        for name in ("prior", "block_weights", "max_classes"):
            if getattr(self, name) != defaults[name]:
                raise SpecError(
                    f"{name} is about classes, and a spec without a label has none: leave it out, "
                    "or name the label."
                )
        if self.half_life == "auto":
            raise SpecError(
                "half_life='auto' compares log losses of a label, and the spec has none: give a "
                "number of partitions."
            )

    def _check_density(self) -> None:
        if not self.density:
            return
        names = [str(block.name) for block in self.blocks]
        check_known(self.density, names, "density names block", "the spec has")
        if not self.pool or self.block_weights is None:
            raise SpecError(
                "the blocks of density are in no posterior: name some of the blocks only, and fit "
                "block_weights, or leave density out."
            )
        network = [block for block in self.blocks if block.name in self.density]
        modeled = [column for block in network for column in block.columns]
        lacking = [name for name in self.features if modeled.count(name) != 1]
        if lacking or _cycle(network):
            raise SpecError(
                f"the blocks of density model {one_of(lacking or _cycle(network))} not at all, "
                "several times or in a cycle; each column must be in one of them."
            )

    def _check_columns(self) -> None:
        fixed = {self.weight: "the weight", self.label: "the label"}
        if self.weight is not None and self.weight == self.label:
            raise SpecError(f"column {self.label!r} cannot be both the label and the weight.")
        owners: dict[str, str] = {}
        for block in self.blocks:
            for column in block.inputs:
                role = fixed.get(column)
                if role is None and column in block.columns and self.block_weights is None:
                    role = owners.get(column)
                if role is not None:
                    fix = "" if column in fixed else ", unless it fits block_weights"
                    raise SpecError(
                        f"column {column!r} is {role} and also in block {block.name!r}; a model "
                        f"can use a column only once{fix}."
                    )
            owners |= dict.fromkeys(block.columns, f"in block {block.name!r}")
        cycle = _cycle(self.blocks)
        if cycle and self.block_weights is None:
            raise SpecError(
                f"columns are given each other in a cycle, {' given '.join(map(repr, cycle))}; "
                "remove one of them from the given columns of its block, or fit block_weights."
            )

    @property
    def pool(self) -> tuple[Block, ...]:
        """The blocks that the posterior is made of."""
        return tuple(block for block in self.blocks if block.name not in self.density)

    @property
    def density_blocks(self) -> tuple[str, ...]:
        """Names of the blocks whose product is p(x | class); none if there are no such blocks."""
        if self.density:
            return self.density
        modeled = [column for block in self.blocks for column in block.columns]
        if len(modeled) > len(set(modeled)) or _cycle(self.blocks):
            return ()
        return tuple(str(block.name) for block in self.blocks)

    @property
    def features(self) -> tuple[str, ...]:
        """The features of all blocks, in block order, each once."""
        return tuple(dict.fromkeys(column for block in self.blocks for column in block.inputs))

    @property
    def fits_weights(self) -> bool:
        """Whether block weights are fitted."""
        return self.block_weights == "fit"

    @property
    def takes_sample(self) -> bool:
        """Whether training takes a sample of the rows: for weights, or for a density alone."""
        return self.fits_weights or self.label is None

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The label, or nothing."""
        return () if self.label is None else (self.label,)

    def label_for(self, purpose: str) -> str:
        """The label, for something that needs one.

        Args:
            purpose: what needs it, as the beginning of a sentence: ``"calibrate"``.

        Raises:
            SpecError: if there is none.
        """
        if self.label is None:
            raise SpecError(
                f"{purpose} needs a model with a label, and this one is a density of all rows: it "
                "has log p(x), which score_samples and pc.score give, but no classes to predict."
            )
        return self.label

    @property
    def of_label(self) -> str:
        """What follows the word "model" in a title."""
        return " without a label" if self.label is None else f" of {self.label!r}"

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns that `groups` names; none if they are the partitions or rows."""
        return self.groups if isinstance(self.groups, tuple) else ()

    def with_groups_of(self, partition_columns: Sequence[str]) -> ModelSpec:
        """The spec with the columns of a table's partitions as its groups, if these are wanted."""
        if not self.takes_sample or self.groups != PARTITIONS:
            return self
        names = [name for name in partition_columns if name != self.label]
        return dataclasses.replace(self, groups=names)

    @property
    def sampled_columns(self) -> tuple[str, ...]:
        """Label, features and `group_columns`, each once: the columns of the training's sample."""
        return tuple(dict.fromkeys((*self.label_columns, *self.features, *self.group_columns)))

    @property
    def label_and_weight(self) -> tuple[str, ...]:
        """The columns of a training besides the features: label, and weight if any."""
        return tuple(name for name in (self.label, self.weight) if name is not None)

    def source_columns(self, available: Collection[str]) -> tuple[str, ...]:
        """The columns that the features are made of, each once: ``pickup`` for ``hour(pickup)``.

        Args:
            available: names of the columns of the table.
        """
        sources = (name if name in available else _source(name) for name in self.features)
        return tuple(dict.fromkeys(sources))

    def _report(self) -> list[Part]:
        """The blocks and the notes."""
        weights = self.block_weights
        prior = self.prior if isinstance(self.prior, str) else "given"
        title = (
            f"Spec of a model{self.of_label}: {counted(len(self.pool), 'block')} of "
            f"{counted(len(self.features), 'column')}"
        )
        title += "" if self.label is None else f"; prior {prior}"
        title += "" if self.weight is None else f"; rows weighted by {self.weight!r}"
        title += "; weights of blocks fitted" if self.fits_weights else ""
        title += f"; density of {counted(len(self.density), 'block')} more" if self.density else ""
        columns: dict[str, list[Any]] = {
            "block": [block.name for block in self.pool],
            "estimator": [block.estimator for block in self.pool],
            "columns": [", ".join(block.columns) for block in self.pool],
        }
        optional: dict[str, list[Any]] = {
            "given": [", ".join(block.given) for block in self.pool],
            "options": [
                ", ".join(f"{name}={json.dumps(value)}" for name, value in block.options.items())
                for block in self.pool
            ],
        }
        if isinstance(weights, Mapping):
            optional["weight"] = [weights.get(str(block.name), 1.0) for block in self.pool]
        columns |= {name: values for name, values in optional.items() if any(values)}
        return [title, TablePart(columns, most=_MOST_BLOCKS), self.notes]

    @property
    def digest(self) -> str:
        """SHA-256 of the spec in canonical JSON: equal specs have equal digests."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The spec as plain values, ready for TOML, YAML or JSON."""
        named = () if self.label is None else ("label", "prior")  # TOML has no null
        values: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name in named or (each.compare and value not in (None, each.default)):
                values[each.name] = list(value) if isinstance(value, tuple) else copy(value)
        if self.groups is None:
            values["groups"] = []
        values["blocks"] = [block.to_dict() for block in values.pop("blocks")]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelSpec:
        """The inverse of `to_dict`.

        Raises:
            SpecError: if a key is missing or unknown, or the spec is not valid.
        """
        if not isinstance(values, Mapping):
            raise SpecError(f"a model spec must be a table of keys, got {type(values).__name__}.")
        known = [field.name for field in dataclasses.fields(cls) if field.name != "notes"]
        check_known(values, known, "unknown key", "a model spec has")
        if "blocks" not in values:
            raise SpecError(
                "a model spec needs the key 'blocks', and 'label' unless it is a density of all "
                "rows."
            )
        return cls(**{"label": None, **values})

    @classmethod
    @checks_arguments
    def from_file(cls, path: str | Path) -> ModelSpec:
        """Read a spec from ``.toml``, ``.json``, ``.yaml`` or ``.yml`` (YAML needs PyYAML).

        Raises:
            SpecError: if the file cannot be read, has another format, is larger or deeper than a
                spec is, or its spec is not valid.
        """
        suffixes = (".toml", ".json", ".yaml", ".yml")
        return cls.from_dict(read_values(Path(path), "the model spec", suffixes))


def _blocks(listed: Blocks) -> tuple[Block, ...]:
    """The blocks in one of their forms."""
    if isinstance(listed, Block):
        return (listed,)
    if isinstance(listed, Mapping) and {"estimator", "columns"} <= listed.keys():
        listed = [listed]
    elif isinstance(listed, Mapping):
        listed = [Block(estimator, columns) for estimator, columns in listed.items()]
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise SpecError(
            "blocks must be a list of Blocks, or columns by estimator such as "
            f"{{'gaussian_diagonal': ['x', 'y']}}, got {shown(listed)}."
        )
    blocks = tuple(one if isinstance(one, Block) else Block.from_dict(one) for one in listed)
    if not blocks:
        raise SpecError("a model needs at least one Block.")
    return blocks


def _name_blocks(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks with every name filled in, checked for use as file names."""
    taken = {block.name for block in blocks if block.name is not None}
    explicit = [block.name for block in blocks if block.name is not None]
    for name in explicit:
        if not name or "/" in name or name.startswith((".", "_")) or name in TABLE_NAMES:
            raise SpecError(
                f"block name {name!r} cannot name a stored table: it must not be empty, contain "
                f"'/', begin with '.' or '_', or be {one_of(TABLE_NAMES)}."
            )
        if explicit.count(name) > 1:
            raise SpecError(f"two blocks are named {name!r}; give each its own name.")
    named_blocks = []
    for block in blocks:
        if block.name is None:
            name, number = block.estimator, 1
            while name in taken:
                number += 1
                name = f"{block.estimator}_{number}"
            taken.add(name)
            block = Block(block.estimator, block.columns, name, given=block.given, **block.options)
        named_blocks.append(block)
    return tuple(named_blocks)


def _column_names(listed: object) -> tuple[str, ...] | None:
    """One column name or several as a tuple, or None if they are something else."""
    names = (listed,) if isinstance(listed, str) else listed
    names = tuple(names) if isinstance(names, Iterable) else (None,)
    return names if all(isinstance(name, str) and name for name in names) else None


def _source(feature: str) -> str:
    """The column that a feature is a part of, or the feature if it is not such a part."""
    from probclass_core.arrow.parts import part_of  # imports Arrow, which specs do not need

    part = part_of(feature)
    return feature if part is None else part.column


def _cycle(blocks: Sequence[Block]) -> list[str]:
    """Columns, each given the next and the last the same as the first; empty without a cycle."""
    graph: dict[str, list[str]] = {}
    for block in blocks:
        for column in block.columns:
            graph.setdefault(column, []).extend(block.given)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _check_prior(prior: object) -> Prior:
    if isinstance(prior, str) and prior in _NAMED_PRIORS:
        return prior
    if not isinstance(prior, Mapping) or not prior:
        raise SpecError(
            f"prior must be {one_of(_NAMED_PRIORS)} or a probability for every class, got "
            f"{shown(prior)}."
        )
    return distribution(prior, "the prior", "class")


def distribution(values: object, what: str, kind: str) -> dict[str, float]:
    """Probabilities by name that sum to 1; arguments and errors are those of `probabilities`."""
    checked = probabilities(values, what, kind)
    total = math.fsum(checked.values())
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        raise SpecError(f"{what} sums to {total:.12g}, not 1: {checked}.")
    return checked


def probabilities(values: object, what: str, kind: str) -> dict[str, float]:
    """Probabilities by name as text.

    Args:
        values: the probabilities by name.
        what: what they are, such as ``"the prior"``, for messages.
        kind: what has each of them, such as ``"class"``.

    Raises:
        SpecError: if they are not probabilities by name.
    """
    if not isinstance(values, Mapping) or not values:
        raise SpecError(f"{what} must give a probability for each {kind}, got {values!r}.")
    return {
        category_text(name): checked_number(f"{what}: {kind} {name!r}", value, 0.0, 1.0)
        for name, value in values.items()
    }


def check_groups(groups: GroupsOption, label: str | None) -> GroupsOption:
    """The groups of a spec as they are recorded: `PARTITIONS`, a tuple of columns, or None.

    Raises:
        SpecError: if they are something else, or the label.
    """
    if groups is None or (isinstance(groups, Sequence) and not groups):
        return None
    if isinstance(groups, str) and groups == PARTITIONS:
        return groups
    names = _column_names(groups)
    if not names:
        raise SpecError(
            f"groups must be {PARTITIONS!r}, one or more column names, or None, got "
            f"{shown(groups)}."
        )
    if label in names:
        raise SpecError(f"groups is the label, {label!r}; name another column, such as a day.")
    return names


def _check_half_life(half_life: HalfLifeOption) -> HalfLifeOption:
    if half_life is None or (isinstance(half_life, str) and half_life == "auto"):
        return half_life
    number: float = checked_number("half_life", half_life, above=True)
    return int(number) if number.is_integer() else number


def _check_block_weights(
    weights: BlockWeightsOption, blocks: Sequence[Block]
) -> BlockWeightsOption:
    if weights is None or (isinstance(weights, str) and weights == "fit"):
        return weights
    if not isinstance(weights, Mapping):
        raise SpecError(
            f"block_weights must be 'fit', a number for each block, or None, got {shown(weights)}."
        )
    names = [str(block.name) for block in blocks]
    check_known(weights, names, "block_weights names no block", "the model has")
    return {
        str(name): checked_number(f"block_weights of {name!r}", value)
        for name, value in weights.items()
    }


def _plain(value: object, where: str) -> Any:
    """A value as plain JSON, so that every spec can be stored and hashed."""
    if isinstance(value, Mapping):
        return {category_text(key): _plain(item, where) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, where) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SpecError(f"{where}: {value!r} is not a finite number.")
        # 1 and 1.0 are equal, so their digests must be equal too.
        value = int(value) if value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SpecError(f"{where}: {value!r} is not a plain value (number, text, list or table).")
