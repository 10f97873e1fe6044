"""The page of commands says what their help says."""

from __future__ import annotations

from cli_page import PAGE, written


def test_the_page_has_the_commands_as_they_are() -> None:
    """If this fails: `make commands`."""
    assert PAGE.read_text(encoding="utf-8") == written()
