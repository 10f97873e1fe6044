"""Campaigns of hostile input: many trials, each given by its seed, in processes that may die.

    python tests/fuzzing/campaign.py bundles --trials 1000000 --report build/bundles.jsonl
    python tests/fuzzing/campaign.py packs --trials 100000
    python tests/fuzzing/campaign.py parquet --trials 10000
Trials run in batches, each in a process of its own: a trial that kills its process, takes longer
than a minute or needs more than 2 GB is a defect of its seed, and the other trials go on. A report
has one line per batch; run again with the same report, a campaign continues where it ended.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

BATCH = 2_000
"""Trials in one process."""

LONGEST = 60.0
"""Seconds that a trial may take."""

MOST_MEMORY = 2 * 10**9
"""Bytes of memory that a process may need, in its worst trial."""


class Result(NamedTuple):
    """The result of a trial.

    Attributes:
        change: kind of the change, a row of the table of results.
        field: what was changed; a campaign covers all of them.
        outcome: a word for what happened, a column of the table of results.
        defect: what is wrong with it, or "" if it is as promised.
    """

    change: str
    field: str
    outcome: str
    defect: str = ""


Trial = Callable[[int], Result]


@dataclass
class Tally:
    """Results of a batch.

    Attributes:
        first: seed of the first trial.
        trials: number of trials.
        outcomes: trials by change and outcome.
        fields: trials by field.
        defects: seed, change, field and what is wrong.
        seconds: CPU time of the process.
        memory: largest resident size of the process, in bytes.
    """

    first: int
    trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    defects: list[tuple[int, str, str, str]] = field(default_factory=list)
    seconds: float = 0.0
    memory: int = 0

    def add(self, seed: int, result: Result) -> None:
        self.trials += 1
        self.outcomes[f"{result.change}|{result.outcome}"] += 1
        self.fields[result.field] += 1
        if result.defect:
            self.defects.append((seed, result.change, result.field, result.defect[:500]))

    def merge(self, other: Tally) -> None:
        self.trials += other.trials
        self.outcomes.update(other.outcomes)
        self.fields.update(other.fields)
        self.defects += [(seed, *rest) for seed, *rest in other.defects]
        self.seconds += other.seconds
        self.memory = max(self.memory, other.memory)

    @classmethod
    def parse(cls, line: str | bytes) -> Tally:
        """The inverse of `line`."""
        values = json.loads(line)
        values |= {name: Counter(values[name]) for name in ("outcomes", "fields")}
        return cls(**values)

    @property
    def line(self) -> str:
        """The tally as a line of a report."""
        return json.dumps(vars(self)) + "\n"


def run_batch(trial: Trial, seeds: range, *, longest: float = LONGEST) -> Tally:
    """Run trials in other processes, a new one after each that died.

    Args:
        trial: runs a trial by its seed.
        seeds: seeds of the trials.
        longest: seconds that a trial may take.
    """
    tally, waiting = Tally(seeds.start), [seeds]
    while waiting:
        seeds = waiting.pop()
        answer, last, reason = _in_another_process(trial, seeds, longest)
        if answer is not None:
            tally.merge(answer)
            rest = [seeds[answer.trials :]]  # it ends early if it needed too much memory
        else:
            tally.add(last, Result("any", "process", "died", reason))
            place = seeds.index(last)
            rest = [seeds[:place], seeds[place + 1 :]]
        waiting += [part for part in rest if part]
    return tally


def _in_another_process(
    trial: Trial, seeds: range, longest: float
) -> tuple[Tally | None, int, str]:
    """Results of trials; or None, the seed at which the process died, and why."""
    progress = mmap.mmap(-1, 8)
    progress[:8] = struct.pack("q", seeds.start)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        status = 1
        # Libraries leave handlers: that of ClickHouse would wait for a thread of the parent.
        for fatal in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV):
            signal.signal(fatal, signal.SIG_DFL)
        try:
            with os.fdopen(writer, "w") as answer:
                answer.write(_run(trial, seeds, progress).line)
            status = 0
        except BaseException:  # nothing of the parent may run in the child
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    received, seed, since, hung = b"", seeds.start, time.monotonic(), False
    while True:
        if select.select([reader], [], [], 1.0)[0]:
            if not (data := os.read(reader, 1 << 20)):
                break
            received += data
        (now,) = struct.unpack("q", progress[:8])
        if now != seed:
            seed, since = now, time.monotonic()
        elif time.monotonic() - since > longest:
            hung = True
            os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, wait_status, usage = os.wait4(child, 0)
    status = os.waitstatus_to_exitcode(wait_status)
    (seed,) = struct.unpack("q", progress[:8])
    if not status:
        tally = Tally.parse(received)
        tally.seconds = usage.ru_utime + usage.ru_stime
        return tally, seed, ""
    if status == 1:
        raise RuntimeError(f"the trial of seed {seed} raised an error that it should report")
    ended = f"the process ended with status {status}"
    return None, seed, f"still running after {longest:g} s" if hung else ended


def _run(trial: Trial, seeds: range, progress: mmap.mmap) -> Tally:
    warnings.simplefilter("ignore")
    tally = Tally(seeds.start)
    for seed in seeds:
        progress[:8] = struct.pack("q", seed)
        result = trial(seed)
        tally.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if tally.memory > MOST_MEMORY:
            result = result._replace(outcome="memory", defect=f"needs {tally.memory:,} bytes")
        tally.add(seed, result)
        if tally.memory > MOST_MEMORY:
            break
    return tally


def run_campaign(trial: Trial, seeds: range, report: Path | None) -> Tally:
    """Run all batches whose results are not in the report yet, and add them to it."""
    total = Tally(seeds.start)
    known: dict[int, Tally] = {}
    if report is not None and report.exists():
        known = {tally.first: tally for tally in map(Tally.parse, report.read_text().splitlines())}
    for first in range(seeds.start, seeds.stop, BATCH):
        batch = range(first, min(first + BATCH, seeds.stop))
        tally = known.get(first)
        if tally is None or tally.trials != len(batch):
            tally = run_batch(trial, batch)
            if report is not None:
                with report.open("a") as lines:
                    lines.write(tally.line)
            for defect in tally.defects:
                sys.stdout.write(f"{': '.join(map(str, defect))}\n")
        total.merge(tally)
        sys.stdout.write(
            f"{total.trials:,} trials, {total.seconds:.0f} s of CPU, "
            f"{total.memory / 1e6:,.0f} MB, {len(total.defects)} defects\n"
        )
        sys.stdout.flush()
    return total


def markdown(tally: Tally) -> str:
    """A table of the outcomes by change."""
    counts: Counter[tuple[str, str]] = Counter()
    for key, count in tally.outcomes.items():
        change, outcome = key.split("|")
        counts[change, outcome] += count
    changes = sorted({change for change, _ in counts})
    outcomes = sorted({outcome for _, outcome in counts})
    lines = [["change", "trials", *outcomes], ["---", *["--:"] * (1 + len(outcomes))]]
    for change in [*changes, None]:
        row = [
            sum(n for (c, o), n in counts.items() if change in (c, None) and o == outcome)
            for outcome in outcomes
        ]
        lines.append([change or "all", *(f"{count:,}" for count in (sum(row), *row))])
    least = min(tally.fields.values())
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return (
        f"{text}\n\n{len(tally.fields):,} fields, each at least {least:,} times; "
        f"{tally.seconds:,.0f} s of CPU; {tally.memory / 1e6:,.0f} MB; "
        f"{len(tally.defects):,} defects\n"
    )


def main() -> None:
    """Run a campaign, and print a table of its results."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=["bundles", "packs", "parquet"])
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--report", type=Path, help="file of results, to continue later")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.trials)
    with import_module(f"hostile_{options.name}").trials() as trial:
        total = run_campaign(trial, seeds, options.report)
    sys.stdout.write(f"\n{markdown(total)}")
    sys.exit(1 if total.defects else 0)


if __name__ == "__main__":
    main()
