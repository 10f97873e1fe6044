"""Reports on narrow terminals: no number and no name is broken."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from probclass_core.demo.lake import lay_out

NUMBERS = ["dew_point", "temperature", "pressure", "log_wind_speed"]
CATEGORIES = {"categorical": ["wind_direction", "hour"]}

REPORTS = {
    "calibrate": "calibrate air@first lake --partition month=2011-01",
    "compare": "compare lake spec.json naive.json --partition month=2010-02",
    "drift": "drift air@first air@second",
    "estimator": "estimators discretized",
    "estimators": "estimators",
    "evaluate": "evaluate air@first lake --partition month=2010-04",
    "explain": "explain air@first lake --partition month=2010-04 --row 3",
    "history": "models history air",
    "importance": "importance air@first lake --partition month=2010-04",
    "inspect": "inspect air@first",
    "models": "models",
    "table": "table inspect lake",
    "versions": "models air",
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with the bundled lake."""
    folder = tmp_path_factory.mktemp("air")
    lay_out(folder / "lake")
    return folder


@pytest.mark.parametrize("width", [80, 60])
def test_every_word_of_a_report_is_whole_on_a_narrow_terminal(
    workplace: Any, probclass: Any, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("PROBCLASS_STORE", "models")  # a short path
    (probclass.folder / "lake").symlink_to(workplace / "lake")
    probclass.spec("air", gaussian_diagonal=NUMBERS, **CATEGORIES).rename("naive.json")
    probclass.spec("air", gaussian_full=NUMBERS, **CATEGORIES)
    fit = "fit lake --spec spec.json --name air --cache"
    probclass.ok(f"{fit} --partition month=2010-03 --alias second")
    reports = {**REPORTS, "fit": f"{fit} --partition month=2010-02 --alias first"}
    # Reports that write come first, so that the second run of each writes nothing new.
    probclass(reports["fit"])
    probclass(reports["calibrate"])
    if width < 80:
        for name in ("explain", "importance"):  # text for Python as well, of 80 columns
            del reports[name]
    broken = {}
    for name, command in reports.items():
        monkeypatch.delenv("COLUMNS", raising=False)
        whole = probclass(command).out
        monkeypatch.setenv("COLUMNS", str(width))
        broken[name] = words(whole) - words(probclass(command).out)
    assert {name: missing for name, missing in broken.items() if missing} == {}


def words(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if set(word) != {"─"})
