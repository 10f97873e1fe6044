"""The options of ``probclass score`` are those of the classes that the library takes."""

from __future__ import annotations

from dataclasses import fields

import probclass_core as pc
from probclass_core.cli.commands.train_and_score import PartitionOptions, ScoringOptionGroup


def test_every_option_of_scoring_has_an_option_of_the_command() -> None:
    group = {field.name for field in fields(ScoringOptionGroup)}
    of_rule = {field.name for field in fields(pc.DecisionRule)} - {"by"}
    assert group == {field.name for field in fields(pc.ScoringOptions)} | of_rule | {"fail_on"}
    assert ScoringOptionGroup().parsed_options() == pc.ScoringOptions()


def test_every_choice_of_partitions_has_an_option_of_the_command() -> None:
    several = {field.name for field in fields(pc.Partitions)} - {"where", "first", "last"}
    assert several < {field.name for field in fields(PartitionOptions)}
    chosen = PartitionOptions(partition=["day=1"], catch_up=7, limit=2).arguments()["partition"]
    assert chosen == pc.Partitions([{"day": "1"}], catch_up=7, limit=2)
