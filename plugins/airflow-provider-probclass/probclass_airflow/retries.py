"""A retry policy for tasks that call `probclass_core` themselves; it needs Airflow 3.3.

The operators follow the same rules without it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import RetryAction, RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProbClassRetryPolicy(RetryPolicy):
    """Fail without a retry on a wrong spec, wrong data or a missing plugin; retry storage errors.

    An error of the library with `is_transient`, such as `TableError`, `StoreError` and
    `MissingLabelsError`, is retried while the task has retries left, and so is an `OSError`. The
    other errors of the library, such as `SpecError`, `DataError` and `TableMismatchError`, fail
    without a retry. All other exceptions are left to the task's own settings. Airflow's
    `ExceptionRetryPolicy` can express the same, but it imports the errors, and so the whole
    library, whenever the DAG is parsed.

    Args:
        retry_delay: delay before the next try; by default the delay of the task.
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
        """Decide whether to retry; the reason is logged."""
        import probclass_core as pc

        kind = type(exception).__name__
        if isinstance(exception, pc.ProbClassError) and not exception.is_transient:
            return RetryDecision(RetryAction.FAIL, reason=f"a retry cannot fix a {kind}")
        if isinstance(exception, (pc.ProbClassError, OSError)):
            reason = f"a {kind} may be temporary"
            return RetryDecision(RetryAction.RETRY, self.retry_delay, reason)
        return RetryDecision(RetryAction.DEFAULT)
