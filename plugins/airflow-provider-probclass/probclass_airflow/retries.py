"""Which failures a retry can mend, for tasks that call `probclass_core` themselves.

The operators decide by these rules already. Needs Airflow 3.3, which brought retry policies.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import RetryAction, RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProbClassRetryPolicy(RetryPolicy):
    """Fail at once on a bad spec, bad rows or a missing plugin; retry what a store may mend.

    `SpecError`, `DataError`, `PluginError` and `NotSupportedError` fail without another try.
    `TableError`, `StoreError` and `OSError` are tried again, as long as the task has retries left.
    Of other errors the task decides. Airflow's `ExceptionRetryPolicy` can say the same, but imports
    the errors it names, and so the whole library, whenever the DAG is parsed; this one does not.

    Args:
        retry_delay: before the next try; by default the task's.
    """

    def __init__(self, retry_delay: timedelta | None = None) -> None:
        self.retry_delay = retry_delay

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,
    ) -> RetryDecision:
        """What to do about a failure; the reason goes to the log."""
        import probclass_core as pc

        kind = type(exception).__name__
        if isinstance(
            exception, (pc.SpecError, pc.DataError, pc.PluginError, pc.NotSupportedError)
        ):
            return RetryDecision(RetryAction.FAIL, reason=f"no retry can mend a {kind}")
        if isinstance(exception, (pc.TableError, pc.StoreError, OSError)):
            reason = f"a {kind} may pass"
            return RetryDecision(RetryAction.RETRY, self.retry_delay, reason)
        return RetryDecision(RetryAction.DEFAULT)
