"""The options of commands are those of the classes that the library takes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import typer.main

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.cli.commands.train_and_score import ScoredRows
from probclass_core.cli.settings import call, settings

COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "options", "left_out"),
    [
        ("score", pc.ScoringOptions, {"decision": "the rule", "watch": "the checks"}),
        ("score", pc.DecisionRule, {"by": "decision"}),
        ("score", pc.Partitions, {"where": "partitions", "first": "", "last": ""}),
        ("evaluate", pc.DecisionRule, {"by": "decision"}),
        ("promote", pc.Gate, {}),
    ],
)
def test_a_command_has_the_options_of_a_class(
    command: str, options: Any, left_out: dict[str, str]
) -> None:
    names = {parameter.name for parameter in COMMANDS[command].params}
    assert {field.name for field in fields(options)} - {*left_out} <= names
    given = {one.parameter.name: one.parameter.default for one in settings(options)}
    assert call(options, given) == options(), "the defaults are those of the class"


def test_partitions_are_chosen_by_one_and_those_before_it() -> None:
    given = {one.parameter.name: one.parameter.default for one in settings(ScoredRows)}
    chosen = call(ScoredRows, given | {"partition": ["day=1"], "catch_up": 7, "limit": 2})
    assert chosen.arguments["partition"] == pc.Partitions([{"day": "1"}], catch_up=7, limit=2)
    assert call(ScoredRows, given).arguments["partition"] is None
