"""What an evaluation looks like on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probclass_core.cli.output import facts, put, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from probclass_core import Evaluation

_MOST_CLASSES = 12
"""More classes than this make no confusion matrix that can be read."""
_MOST_ROWS = 20


def show_evaluation(ref: str, found: Evaluation) -> None:
    """Print the metrics of a model, the confusion, and the figures of each class."""
    unseen = f"{found.unseen_labels:,} with a label the model never saw: counted as wrong"
    put(
        facts(
            {
                "model": ref,
                "rows": f"{found.rows:,} labeled",
                "left out": f"{found.null_labels:,} without a label" if found.null_labels else None,
                "unseen": unseen if found.unseen_labels else None,
                "rejected": _rejected(found),
            }
        ),
        _quality(found),
        _confusion(found),
        table(found.per_class, "By class", limit=_MOST_ROWS),
    )


def _rejected(found: Evaluation) -> str | None:
    if found.decided == found.rows:
        return None
    reasons = ", ".join(f"{count:,} by {reason}" for reason, count in found.rejected.items())
    return f"{found.rows - found.decided:,} ({found.rejected_share:.1%}): {reasons}"


def _quality(found: Evaluation) -> RenderableType:
    of = "share predicted right" + ("" if found.decided == found.rows else ", of those decided")
    metrics = [
        ("accuracy", found.accuracy, found.baseline_accuracy, of),
        ("cost", found.cost, found.baseline_cost, "mean of a decided row, less is better"),
        ("log loss", found.log_loss, found.baseline_log_loss, "nats a row, less is better"),
        ("Brier score", found.brier, None, "0 to 2, less is better"),
        ("calibration error", found.ece, None, "0 to 1, less is better"),
    ]
    shown = [metric for metric in metrics if metric[0] != "cost" or found.cost is not None]
    names = ("metric", "model", "prior alone", "")
    return table(dict(zip(names, map(list, zip(*shown, strict=True)), strict=True)), "Quality")


def _confusion(found: Evaluation) -> RenderableType:
    """The matrix; where it is too large to be read, the largest mistakes in it."""
    names = found.confusion["class"].to_pylist()
    if len(names) <= _MOST_CLASSES:
        matrix = found.confusion.rename_columns(["true class", *names])
        return table(matrix, "Confusion: rows by true class, columns by predicted class")
    mistakes = [
        (true, predicted, count)
        for true, row in zip(names, found.confusion.drop(["class"]).to_pylist(), strict=True)
        for predicted, count in zip(names, row.values(), strict=True)
        if true != predicted and count
    ]
    mistakes.sort(key=lambda mistake: -mistake[2])
    columns = {
        name: [mistake[place] for mistake in mistakes]
        for place, name in enumerate(("true class", "predicted", "rows"))
    }
    return table(columns, "Most frequent mistakes", limit=_MOST_ROWS)
