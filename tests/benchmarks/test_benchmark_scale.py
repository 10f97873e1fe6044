"""benchmarks.scale on few rows: complete measurements, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import figures, scale


@pytest.mark.nightly
def test_a_small_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    assert scale.main(["--rows", "1000000", "--lake", str(tmp_path / "lake"), "--record"]) == 0
    runs = figures.recorded("scale")["runs"]
    lengths = (100_000, 1_000_000)
    assert [(run["work"], run["rows"]) for run in runs] == [
        (work, rows) for work in ("train", "score") for rows in lengths
    ]
    assert max(run["peak_megabytes"] for run in runs) < 1_000
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(lengths)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "lake"]
