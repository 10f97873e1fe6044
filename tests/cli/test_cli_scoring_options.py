"""The options of commands are those of the classes that the library takes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
import pytest

import probclass_core as pc
from probclass_core.cli.app import app, call, parameters
from probclass_core.cli.commands.train_and_score import ScoredRows


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
    found = app.get_command(click.Context(app), command)
    assert found is not None
    names = {parameter.name for parameter in found.params}
    assert {field.name for field in fields(options)} - {*left_out} <= names
    assert made(options) == options(), "the defaults are those of the class"


def made(options: Any, *arguments: str) -> Any:
    """What a class is with arguments of the command line."""
    context = click.Command("x", params=[*parameters(options)]).make_context("x", [*arguments])
    return call(options, context.params)


def test_partitions_are_chosen_by_one_and_those_before_it() -> None:
    chosen = made(ScoredRows, *["--partition", "day=1", "--catch-up", "7", "--limit", "2"])
    assert chosen.arguments["partition"] == pc.Partitions([{"day": "1"}], catch_up=7, limit=2)
    assert made(ScoredRows).arguments["partition"] is None
