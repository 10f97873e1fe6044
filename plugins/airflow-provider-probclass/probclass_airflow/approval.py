"""Ask a person before a challenger that passed the gate is promoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

from probclass_airflow.base import TranslatedErrors
from probclass_airflow.hooks import connected, open_store
from probclass_airflow.links import comparison_link
from probclass_airflow.promotion import summary_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from probclass_core.store.promotions import Promotion

PROMOTE, REFUSE = "Promote", "Refuse"


class ProbClassApproveOperator(HITLOperator):
    """Ask whether a proposed challenger is promoted, with the evidence, and do what is answered.

    The question is among the required actions in Airflow's UI; while it waits, the task takes no
    worker. The ledger of promotions has who answered. Without a proposal, or if the alias names
    another champion by now, the task is skipped.

    Args:
        proposal: result of a `ProbClassPromoteOperator` with ``propose=True``; None if it failed.
        store: path or URI of the model store.
        response_timeout: time after which the challenger is refused. A run goes on until then.
        store_conn_id: connection with the credentials of the model store.
        kwargs: arguments of `HITLOperator`, such as ``assigned_users`` and ``notifiers``.

    Returns (XCom and the `extra` of outlet assets, which get an event if the alias has moved):
        As `ProbClassPromoteOperator`.
    """

    template_fields: Sequence[str] = ("proposal", "store", "store_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"proposal": "json"}
    ui_color = "#f4d9dc"

    def __init__(
        self,
        *,
        proposal: Any,
        store: str,
        response_timeout: timedelta,
        store_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            response_timeout=response_timeout,
            subject="Promote the challenger?",
            options=[PROMOTE, REFUSE],
            defaults=REFUSE,  # if nobody answers in time
            **kwargs,
        )
        self.proposal = proposal
        self.store = store
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> Any:
        """Ask, and wait for the answer.

        Raises:
            AirflowSkipException: if there is nothing to ask.
        """
        if self._proposed is None:
            raise AirflowSkipException("No challenger is proposed.")
        entry = self._proposed
        with TranslatedErrors(), connected(self._connections):
            named = open_store(self.store, self.store_conn_id).aliases(entry["model"])
        champion = named.get(entry["alias"])
        if (None if champion is None else champion.id) != entry["previous"]:
            raise AirflowSkipException(f"{entry['alias']} names another version by now.")
        self.subject = f"Promote {entry['model']}@{entry['id'][:12]} to {entry['alias']}?"
        self.body = evidence(self.proposal, self.store)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Promote, or record that it is refused."""
        from probclass_core.store.promotions import Promotion

        answer: Mapping[str, Any] = super().execute_complete(context, event)
        user = answer["responded_by_user"]
        accepted = answer["chosen_options"] == [PROMOTE]
        with TranslatedErrors(), connected(self._connections):
            entry = open_store(self.store, self.store_conn_id).decide(
                Promotion(**(self._proposed or {})),
                accepted=accepted,
                by=str(user["name"]) if user else f"{self.dag_id}.{self.task_id}",
                reason=("approved" if accepted else "not approved")
                if user
                else "no answer in time",
            )
        return self._result(context, entry)

    def _result(self, context: Context, entry: Promotion) -> dict[str, Any]:
        self.log.info("%s is %s: %s.", entry.ref, entry.action, entry.reason)
        summary = summary_of(entry)
        if not summary["promoted"]:
            self.outlets = []
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = summary
        return summary

    @property
    def _proposed(self) -> dict[str, Any] | None:
        return (self.proposal or {}).get("proposal")

    @property
    def _connections(self) -> list[tuple[str, str]]:
        return [] if self.store_conn_id is None else [(self.store_conn_id, self.store)]


def evidence(proposal: Mapping[str, Any], store: str) -> str:
    """What speaks for a proposed promotion, as Markdown.

    Args:
        proposal: result of the `ProbClassPromoteOperator`.
        store: path or URI of the model store.
    """
    entry = proposal["proposal"]
    numbers, rows = entry["metrics"], entry["provenance"]
    model, alias, challenger, champion = (
        entry[name] for name in ("model", "alias", "id", "previous")
    )
    metric = numbers["metric"]
    lines = [f"**{entry['reason']}.**", "", f"| | challenger | {alias} now |", "|---|---|---|"]
    lines.append(f"| version | {challenger[:12]} | {(champion or 'none')[:12]} |")
    values = (numbers.get(f"{name}_value") for name in ("challenger", "champion"))
    lines.append(f"| {metric} | {' | '.join(map(_figure, values))} |")
    for name, floor in numbers.get("floors", {}).items():
        lines.append(f"| floor of {name} | {_figure(floor['floor'])} | |")
    if numbers.get("gain") is not None:
        error = _figure(numbers.get("standard_error"))
        lines.append(f"| paired gain | {_figure(numbers['gain'])} ± {error} | |")
    if windows := proposal["windows"]:
        lines.append(f"| better in | {numbers['windows_better']} of {windows} windows | |")
    lines.append(f"| rows judged | {numbers.get('rows', 0):,} | |")
    lines += ["", f"Judged on `{_selection(rows)}` of `{rows.get('source')}`."]
    if champion is not None:
        address = comparison_link(store, model, champion, challenger)
        lines += ["", f"[Compare the two versions]({address})"]
    lines += [
        "",
        f"**{REFUSE}**, or no answer in time: `{alias}` names the version that it names now.",
    ]
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _selection(rows: Mapping[str, Any]) -> str:
    where = rows.get("where") or ()
    conditions = [f"{column} = {value}" for column, value in (rows.get("partition") or {}).items()]
    conditions += [where] if isinstance(where, str) else [" ".join(map(str, one)) for one in where]
    return " and ".join(conditions) or "all rows"
