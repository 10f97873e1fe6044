"""The report of a model: one page of HTML with the numbers of the model, safe to open."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from read_html import Markup

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.errors import SpecError, TableError

SCRIPT = "<script>alert('owned')</script>"


class ReadPage(Markup):
    """The texts of a page by section, its tags, its pictures by alternative text, its addresses."""

    def __init__(self, content: str) -> None:
        self.addresses: list[str] = []
        self.pictures: dict[str, str] = {}
        self.sections: dict[str, str] = {}
        self._section = "headline"
        super().__init__(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        values = {name: value or "" for name, value in attrs}
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        if tag == "section":
            self._section = values["id"]
        if tag == "img":
            self.pictures[values["alt"]] = values["src"]

    def handle_endtag(self, tag: str) -> None:
        super().handle_endtag(tag)
        if tag == "section":
            self._section = ""

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if text and self.open[-1] not in ("style", "title"):
            self.sections[self._section] = f"{self.sections.get(self._section, '')} {text}"


def svg(address: str) -> str:
    """The SVG of an embedded picture."""
    kind, data = address.split(";base64,")
    assert kind == "data:image/svg+xml"
    return base64.b64decode(data).decode()


def four_digits(value: float) -> str:
    """A number between 0.1 and 10 as the page writes it."""
    return f"{value:.{4 if value < 1.0 else 3}f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


@pytest.fixture(scope="module")
def rows(titanic: pa.Table) -> pa.Table:
    return titanic.select(["sex", "fare", "embarked", "deck", "label"])


@pytest.fixture(scope="module")
def held_out(rows: pa.Table) -> pa.Table:
    return rows.slice(600)


@pytest.fixture(scope="module")
def model(rows: pa.Table) -> pc.Model:
    """The default model of Titanic."""
    train = rows.slice(0, 600)
    return pc.fit(train, pc.ModelSpec.auto(train, label="label"))


@pytest.fixture(scope="module")
def content(model: pc.Model, held_out: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "titanic.html"
    model.report(path, source=held_out)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(content: str) -> ReadPage:
    return ReadPage(content)


def written(model: pc.Model, path: Path, **options: Any) -> ReadPage:
    model.report(path, **options)
    return ReadPage(path.read_text(encoding="utf-8"))


def test_the_page_loads_nothing_and_is_small(content: str, page: ReadPage) -> None:
    within = ("#", "data:image/svg+xml;base64,")
    assert all(address.startswith(within) for address in page.addresses)
    assert not page.tags & {"script", "link", "iframe", "object", "form"}
    assert not {name for name in page.attributes if name.startswith("on") or name == "style"}
    assert "url(" not in content
    assert "@import" not in content
    assert len(content) < 1_000_000
    anchors = [address[1:] for address in page.addresses if address.startswith("#")]
    assert anchors == [name for name in page.sections if name not in ("headline", "")]
    assert anchors == [
        *("evaluation", "importance", "effects", "model", "training"),
    ]


def test_quality_is_that_of_an_evaluation_next_to_the_prior(
    model: pc.Model, held_out: pa.Table, page: ReadPage
) -> None:
    found: Any = pc.evaluate(model, held_out)
    text = page.sections["evaluation"]
    assert "Measured on a table in memory." in text
    assert f"Evaluation on {found.rows:,} labeled rows" in text
    quality = (
        f"Log loss {four_digits(found.log_loss)} "
        f"prior alone {four_digits(found.baseline_log_loss)} "
        f"Accuracy {percent(found.accuracy)} prior alone {percent(found.baseline_accuracy)}"
    )
    assert quality in page.sections["headline"]
    for metric in ("log_loss", "accuracy", "brier", "ece"):
        values = [getattr(found, name) for name in (metric, f"baseline_{metric}")]
        shown = " ".join(f"{value:.4f}" for value in values)
        assert f" {metric.replace('_', ' ')} {shown} " in text
    for row in found.per_class.to_pylist():
        shares = [f"{row[name]:.4f}" for name in ("precision", "recall", "f1")]
        assert " ".join([row["class"], *shares, str(row["support"])]) in text
    for row in found.confusion.to_pylist():
        assert " ".join(map(str, row.values())) in text
    assert any("Observed frequency" in alt for alt in page.pictures)


def test_columns_are_ranked_by_their_importance_on_the_rows(
    model: pc.Model, held_out: pa.Table, page: ReadPage
) -> None:
    table = pc.importance(model, held_out).table
    overall = table.to_pylist()
    places = [page.sections["importance"].index(f" {row['item']} ") for row in overall]
    assert places == sorted(places)
    assert overall[0]["item"] == "sex"


def test_every_column_has_its_effect_drawn(model: pc.Model, page: ReadPage) -> None:
    effects = [alt for alt in page.pictures if alt.startswith("Effect of ")]
    assert sorted(effects) == sorted(f"Effect of {name}" for name in model.features.names)
    assert all(alt for alt in page.pictures)


def test_the_page_says_what_the_model_is(model: pc.Model, page: ReadPage) -> None:
    for row in model.priors.to_pylist():
        line = f" {row['class']} {row['prior']:.4f} {row['count']:.0f}"
        assert line in page.sections["model"]
    assert model.weights is not None
    for block in model.spec.pool:
        weight = model.weights.by_block[str(block.name)]
        described = f" {block.name} {block.estimator} {', '.join(block.columns)}"
        _, _, after = page.sections["model"].partition(described)
        shown = re.search(r" (\d+\.\d{4}) ", after)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(weight, abs=1e-4)
    assert f" {len(model.spec.pool)} blocks Training rows 600" in page.sections["headline"]
    assert model.id in page.sections["training"]
    for note in [*model.spec.notes, *model.training.get("notes", [])]:
        assert note in page.sections["model"]


def test_without_rows_the_page_has_what_the_training_measured(
    model: pc.Model, tmp_path: Path
) -> None:
    page = written(model, tmp_path / "model.html")
    measured = model.training["block_weights"]
    text = page.sections["evaluation"]
    assert f"Measured in the training on {measured['rows']:,} of its distinct rows" in text
    for section in ("headline", "evaluation"):
        assert (
            f"Log loss {four_digits(measured['log_loss'])} "
            f"prior alone {four_digits(measured['prior_log_loss'])}"
        ) in page.sections[section]
    assert "Accuracy" not in text


def test_an_evaluation_on_the_rows_of_the_training_is_called_that(tmp_path: Path) -> None:
    lake = tmp_path / "lake.parquet"
    pq.write_table(pa.table({"c": ["a", "b"] * 20, "x": np.arange(40.0)}), lake)
    model = pc.fit(lake, pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["x"])]))
    same = written(model, tmp_path / "same.html", source=lake)
    assert "These are the rows of the training" in same.sections["evaluation"]
    part = written(model, tmp_path / "part.html", source=lake, where="x < 10")
    assert "These are the rows of the training" not in part.sections["evaluation"]
    assert f"Measured on {lake}, x < 10." in part.sections["evaluation"]
    assert "10 labeled rows" in part.sections["evaluation"]


def test_names_and_values_are_text_and_never_markup(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 200)
    table = pa.table(
        {
            SCRIPT: [f"{SCRIPT} {k}" for k in truth],
            f"{SCRIPT} x": truth + random.normal(size=200),
            '" onerror="alert(1)': [f"{SCRIPT} {k}" for k in random.integers(0, 3, 200)],
        }
    )
    blocks = [pc.Block("gaussian_diagonal", [f"{SCRIPT} x"], name="<b>number")]
    blocks += [pc.Block("categorical", ['" onerror="alert(1)'], name="<b>values")]
    model = pc.fit(table, pc.ModelSpec(SCRIPT, blocks, block_weights="fit", notes=["<i>note</i>"]))
    page = written(model, tmp_path / "hostile.html", source=table, title="<u>title</u>")
    assert not page.tags & {"script", "b", "i", "u"}
    assert not {name for name in page.attributes if name.startswith("on")}
    for section in ("headline", "evaluation", "model"):
        assert SCRIPT in page.sections[section]
    assert "<i>note</i>" in page.sections["model"]
    assert len(page.pictures) == 3
    for address in page.pictures.values():
        elements = list(ElementTree.fromstring(svg(address)).iter())
        tags = {element.tag.rpartition("}")[2] for element in elements}
        assert not tags & {"script", "foreignObject", "image", "a"}
        assert not {name for one in elements for name in one.attrib if name.startswith("on")}


def test_a_model_that_is_its_prior_says_so(model: pc.Model, tmp_path: Path) -> None:
    page = written(model.prior_only(), tmp_path / "prior.html")
    assert "The posterior is the class prior for every row" in page.sections["evaluation"]


def test_a_model_without_a_label_is_measured_by_its_log_density(
    rows: pa.Table, held_out: pa.Table, tmp_path: Path
) -> None:
    model = pc.fit(rows, pc.ModelSpec.auto(rows, None))
    found: Any = pc.evaluate(model, held_out)
    page = written(model, tmp_path / "density.html", source=held_out)
    shown = f"{found.log_density:.3f}".replace("-", "−")
    assert page.sections["headline"].startswith(
        f" Model without a label {model.id[:12]} Log density {shown} Columns"
    )
    assert f"log density: {found.log_density:.4f}" in page.sections["evaluation"]
    assert "confusion" not in page.sections["evaluation"]
    assert sorted(page.pictures) == sorted(f"Effect of {name}" for name in model.features.names)
    assert "evaluation" in written(model, tmp_path / "unmeasured.html").sections


def test_a_model_of_one_class_has_a_report(
    rows: pa.Table, held_out: pa.Table, tmp_path: Path
) -> None:
    of_one = rows.drop(["label"]).append_column("label", pa.array(["x"] * rows.num_rows))
    model = pc.fit(of_one, label="label")
    page = written(model, tmp_path / "one.html", source=of_one)
    assert "Log loss 0 prior alone 0 Accuracy 100.0 %" in page.sections["headline"]


def test_two_hundred_classes_fit_in_the_pictures(tmp_path: Path) -> None:
    table = {"x": list(range(1000)), "c": [f"{number % 200}" for number in range(1000)]}
    model = pc.fit(table, pc.ModelSpec("c", {"discretized": "x"}))
    page = written(model, tmp_path / "many.html")  # a picture without room is a warning
    (picture,) = page.pictures.values()
    assert {*map(str, range(200))} <= {
        text.strip() for text in re.findall(r">([^<>]+)</text>", svg(picture))
    }


def test_without_matplotlib_the_rest_is_written(
    model: pc.Model, held_out: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = written(model, tmp_path / "plain.html", source=held_out)
    assert page.pictures == {}
    assert page.sections["effects"].endswith(
        "Plots need matplotlib: pip install 'probclass[plots]'."
    )


def test_what_does_not_fit_is_refused(model: pc.Model, held_out: pa.Table, tmp_path: Path) -> None:
    other = pc.evaluate(model.prior_only(), held_out)
    with pytest.raises(SpecError, match=r"the evaluation is of model .* evaluate this model"):
        model.report(tmp_path / "model.html", evaluation=other)
    with pytest.raises(SpecError, match="give a source as well"):
        model.report(tmp_path / "model.html", where="fare < 3")
    with pytest.raises(SpecError, match=r"a page of HTML, not \.pdf: write it to a file \.html"):
        model.report(tmp_path / "model.pdf", source=held_out)
    assert not (tmp_path / "model.pdf").exists()
    with pytest.raises(TableError, match=r"cannot write the report to .*No such file"):
        model.report(tmp_path / "nowhere" / "model.html", evaluation=pc.evaluate(model, held_out))


def test_the_command_writes_the_page_of_a_stored_model(
    model: pc.Model, held_out: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = pc.ModelStore("models")
    version = store.save(model, "titanic")
    found = pc.evaluate(model, held_out)
    store.record_evaluation(version, found, on={"source": "april"})

    def report(*options: str) -> tuple[int, str]:
        arguments = ["report", "titanic", "--store", "models", *options]
        result = CliRunner().invoke(app, arguments, prog_name="probclass")
        return result.exit_code, (result.stdout or result.stderr).strip()

    code, said = report()
    assert (code, said) == (0, f"Wrote the report of {version.ref} to report.html.")
    page = ReadPage(Path("report.html").read_text())
    assert page.sections["headline"].startswith(f" titanic {model.id[:12]}")
    assert "Measured on april." in page.sections["evaluation"]
    assert f"{found.rows:,} labeled rows" in page.sections["evaluation"]
    loaded = store.load(version.ref)
    assert (loaded.id, loaded.spec.notes) == (model.id, model.spec.notes)
    assert loaded.training.keys() == model.training.keys()
    assert all(note in page.sections["model"] for note in model.spec.notes)
    assert four_digits(found.log_loss) in page.sections["headline"]
    pq.write_table(held_out, "may.parquet")
    code, _ = report("--source", "may.parquet", "--where", "fare < 30", "-o", "may.html")
    assert code == 0
    page = ReadPage(Path("may.html").read_text())
    assert "Measured on may.parquet, fare < 30." in page.sections["evaluation"]
    code, said = report("--where", "fare < 30")
    assert code == 2
    assert "--partition and --where select rows of --source" in said
