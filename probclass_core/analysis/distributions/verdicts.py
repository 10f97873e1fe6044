"""What a check that is not passed says, and the error if it stops a commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from probclass_core.errors import HealthError

Action = Literal["ignore", "warn", "fail", "rollback"]

_MOST_SENTENCES = 5
"""Verdicts that an error repeats."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A check that a partition or an evaluation did not pass.

    Attributes:
        check: name of the check; see `CHECKS` and `LABEL_CHECKS`.
        action: ``"warn"``, ``"fail"`` or ``"rollback"``.
        subject: the column or the class, or None for all rows.
        value: what was found.
        threshold: from which value on the check is not passed.
        reference: what it was compared with, such as ``"training"`` or ``"month=2013-09"``: the one
            that it is closest to.
        sentence: all of this in a sentence.
    """

    check: str
    action: Action = "warn"
    subject: str | None = None
    value: float | None
    threshold: float | None
    reference: str | None = None
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_dict`."""
        fields: dict[str, Any] = {
            field.name: values.get(field.name) for field in dataclasses.fields(cls)
        }
        return cls(**fields)


def raise_failed(verdicts: Iterable[Verdict], where: str) -> None:
    """Refuse a partition if a check says so.

    Args:
        verdicts: all verdicts of the partition.
        where: the partition, to begin the message.

    Raises:
        HealthError: if the action of a verdict is ``"fail"``.
    """
    failed = [verdict for verdict in verdicts if verdict.action == "fail"]
    if failed:
        shown = " ".join(verdict.sentence for verdict in failed[:_MOST_SENTENCES])
        more = len(failed) - _MOST_SENTENCES
        raise HealthError(
            f"{where}: {shown}{f' And {more} more.' if more > 0 else ''} Nothing of it was "
            "written; correct the rows, or leave the check out of the watch's fail.",
            [verdict.to_dict() for verdict in failed],
        )
