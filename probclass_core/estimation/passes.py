"""Another pass over the rows, where an estimator asks for one."""

from __future__ import annotations

import dataclasses

from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.plugins.manager import find_estimator
from probclass_core.spec import Block, ModelSpec


def refine(statistics: Statistics, *, passes: int = 1) -> ModelSpec | None:
    """The spec of another pass over the same rows, or None where these statistics will do.

    Most estimators need one pass. Those with the trait ``passes`` may ask for more: each is a
    summary by the spec that this function gives, and the last one's statistics are finalized.

    Args:
        statistics: of all rows.
        passes: how many were made. An estimator whose trait allows no more is not asked.

    Raises:
        PluginError: an estimator is unknown.
        SpecError: an estimator refuses the options that it asked for.
    """
    classes = statistics.classes["class"].combine_chunks()
    estimators = bind(statistics.spec, statistics.features)
    blocks, due = [], False
    for block in statistics.spec.blocks:
        name = str(block.name)
        if name in statistics.blocks and passes < find_estimator(block.estimator).traits.passes:
            more = estimators[name].refine(statistics.blocks[name], classes)
            if more is not None:
                due = True
                options = {**block.options, **more}
                block = Block(block.estimator, block.columns, name, **options)
        blocks.append(block)
    if not due:
        return None
    refined = dataclasses.replace(statistics.spec, blocks=blocks)
    bind(refined, statistics.features)  # refuses options that the estimator does not know itself
    return refined
