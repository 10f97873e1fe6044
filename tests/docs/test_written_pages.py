"""Pages that are written from code say what the code says."""

from __future__ import annotations

import cli_page
import estimators_table


def test_the_page_has_the_commands_as_they_are() -> None:
    """If this fails: `make commands`."""
    assert cli_page.PAGE.read_text(encoding="utf-8") == cli_page.written()


def test_the_page_of_estimators_says_what_each_offers() -> None:
    """If this fails: `make commands`."""
    assert estimators_table.PAGE.read_text(encoding="utf-8") == estimators_table.written()
