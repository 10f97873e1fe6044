"""Models to compare: those of probclass, peers of scikit-learn, Khiops, and the class prior.

A model is a function of training rows that returns a function of test rows. Peers get the columns
in the form that suits them: numbers standardized, nulls imputed, categories as one-hot columns, as
codes or as they are. Nothing is tuned per table.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv

import probclass_core as pc
from benchmarks.accuracy.generators import LABEL

if TYPE_CHECKING:
    import pandas as pd

Fitted = Callable[[pa.Table], np.ndarray]
"""Class probabilities ``(n, k)`` of rows, columns in the order of the sorted training labels."""


@dataclass(frozen=True)
class Model:
    """A way to classify.

    Attributes:
        name: name on the command line and in tables.
        kind: whether it is of this library, another one's, or a reference that needs none.
        description: one line on what it is.
        fit: function that fits it to rows with the column `LABEL`.
    """

    name: str
    kind: Literal["ours", "peer", "reference"]
    description: str
    fit: Callable[[pa.Table], Fitted]


MODELS: dict[str, Model] = {}
"""The models by name, in the order of the tables of results."""

PRIOR = "class prior"
KHIOPS = "Khiops"


def _model(
    name: str, kind: Literal["ours", "peer", "reference"]
) -> Callable[[Callable[[pa.Table], Fitted]], Callable[[pa.Table], Fitted]]:
    """Register a model, described by the first line of its docstring."""

    def register(fit: Callable[[pa.Table], Fitted]) -> Callable[[pa.Table], Fitted]:
        description = (fit.__doc__ or "").partition("\n")[0].removesuffix(".")
        MODELS[name] = Model(name, kind, description, fit)
        return fit

    return register


@_model("fast", "ours")
def fast(train: pa.Table) -> Fitted:
    """ModelSpec.auto with effort="fast": a weight for each column."""
    return _auto(train, "fast")


@_model("default", "ours")
def default(train: pa.Table) -> Fitted:
    """ModelSpec.auto: weights for columns, pairs and normals."""
    return _auto(train, "default")


@_model("best", "ours")
def best(train: pa.Table) -> Fitted:
    """ModelSpec.auto with effort="best": the same and the densities of neighbors."""
    return _auto(train, "best")


def _auto(train: pa.Table, effort: Literal["fast", "default", "best"]) -> Fitted:
    return _fit(train, pc.ModelSpec.auto(train, LABEL, effort=effort))


@_model("product", "ours")
def product(train: pa.Table) -> Fitted:
    """The textbook's product: supervised bins and categories, one block per column."""
    return _fit(train, pc.ModelSpec(LABEL, _block_per_column(train)))


def _block_per_column(train: pa.Table) -> list[pc.Block]:
    numbers, categories = columns_of(train)
    blocks = [pc.Block("discretized", [name]) for name in numbers]
    return [*blocks, *(pc.Block("categorical", [name]) for name in categories)]


def _fit(train: pa.Table, spec: pc.ModelSpec) -> Fitted:
    model = pc.fit(train, spec)
    order = np.argsort(model.class_names)
    return lambda test: model.predict_proba(test)[:, order]


@_model(PRIOR, "reference")
def class_prior(train: pa.Table) -> Fitted:
    """Frequencies of the classes in the training rows."""
    counts = np.unique(train[LABEL].to_numpy(), return_counts=True)[1]
    return lambda test: np.tile(counts / counts.sum(), (len(test), 1))


@_model("gaussian NB", "peer")
def gaussian_naive_bayes(train: pa.Table) -> Fitted:
    """scikit-learn's GaussianNB on numbers and one-hot columns, nulls imputed."""
    from sklearn.naive_bayes import GaussianNB

    return _pipeline(train, _dense(train), GaussianNB())


@_model("categorical NB", "peer")
def categorical_naive_bayes(train: pa.Table) -> Fitted:
    """scikit-learn's CategoricalNB on categories and ten quantile bins, nulls as a level."""
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    numbers, categories = columns_of(train)
    edges = {
        name: np.unique(np.nanquantile(values, np.arange(0.1, 0.95, 0.1)))
        for name in numbers
        if not np.isnan(values := _frame(train)[name].to_numpy()).all()
    }

    def binned(frame: pd.DataFrame) -> pd.DataFrame:
        levels: dict[str, Any] = {name: frame[name].fillna("null") for name in categories}
        for name in numbers:
            codes = np.searchsorted(edges.get(name, ()), frame[name]).astype(str)
            levels[name] = np.where(frame[name].isna(), "null", codes)
        return frame.assign(**levels)

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    # Code 0 is for values that training did not see.
    codes = [FunctionTransformer(binned), encoder, FunctionTransformer(lambda x: x.astype(int) + 1)]
    levels = [1 + values.nunique() for _, values in binned(_frame(train)).items()]
    return _pipeline(train, *codes, CategoricalNB(min_categories=levels))


@_model("LDA", "peer")
def linear_discriminant_analysis(train: pa.Table) -> Fitted:
    """scikit-learn's LinearDiscriminantAnalysis on numbers and one-hot columns, nulls imputed."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return _pipeline(train, _dense(train), LinearDiscriminantAnalysis())


@_model("logistic regression", "peer")
def logistic_regression(train: pa.Table) -> Fitted:
    """scikit-learn's LogisticRegression on the same columns, standardized, with flags of nulls."""
    from sklearn.linear_model import LogisticRegression

    return _pipeline(train, _dense(train, flags=True), LogisticRegression(max_iter=1_000))


@_model("boosting", "peer")
def boosting(train: pa.Table) -> Fitted:
    """scikit-learn's HistGradientBoostingClassifier by its defaults, with categories and nulls."""
    return _boosting(train)


@_model("boosting with care", "peer")
def careful_boosting(train: pa.Table) -> Fitted:
    """The same with early stopping, a learning rate of 0.05 and at least 5 rows in a leaf."""
    return _boosting(
        train, early_stopping=True, learning_rate=0.05, min_samples_leaf=5, max_iter=1_000
    )


def _boosting(train: pa.Table, **options: Any) -> Fitted:
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.preprocessing import OrdinalEncoder

    numbers, categories = columns_of(train)
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
        max_categories=254,  # boosting has 255 bins per column
    )
    columns = make_column_transformer((encoder, categories), ("passthrough", numbers))
    mask = np.arange(len(categories) + len(numbers)) < len(categories)
    model = HistGradientBoostingClassifier(categorical_features=mask, random_state=0, **options)
    return _pipeline(train, columns, model)


def columns_of(table: pa.Table) -> tuple[list[str], list[str]]:
    """Names of the columns of numbers and of the other ones, the label left out."""
    numeric = [pa.types.is_integer(f.type) or pa.types.is_floating(f.type) for f in table.schema]
    numbers: list[str] = []
    categories: list[str] = []
    for name, is_number in zip(table.schema.names, numeric, strict=True):
        if name != LABEL:
            (numbers if is_number else categories).append(name)
    return numbers, categories


def _frame(table: pa.Table) -> pd.DataFrame:
    """Numbers as float64 with NaN for nulls; other columns as text with None."""
    import pandas as pd

    numbers, categories = columns_of(table)
    columns: dict[str, object] = {
        name: table[name].cast(pa.float64()).to_numpy().astype(np.float64) for name in numbers
    }
    columns |= {
        name: np.array(table[name].cast(pa.string()).to_pylist(), dtype=object)
        for name in categories
    }
    return pd.DataFrame(columns, columns=[n for n in table.schema.names if n != LABEL])


def _dense(train: pa.Table, *, flags: bool = False) -> Any:
    """Numbers standardized, nulls replaced by means; categories as one-hot columns."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers, categories = columns_of(train)
    imputer = SimpleImputer(add_indicator=flags, keep_empty_features=True)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (make_pipeline(imputer, StandardScaler()), numbers), (one_hot, categories)
    )


def _pipeline(train: pa.Table, *steps: Any) -> Fitted:
    """Fit a pipeline of scikit-learn."""
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(*steps).fit(_frame(train), train[LABEL].to_numpy())

    def predict(test: pa.Table) -> np.ndarray:
        probabilities: np.ndarray = pipeline.predict_proba(_frame(test))
        return probabilities

    return predict


def khiops(python: Path) -> Model:
    """Khiops by its defaults, run by a Python interpreter that has it.

    Its package needs an older scikit-learn than this environment has.
    """

    def fit(train: pa.Table) -> Fitted:
        folder = tempfile.TemporaryDirectory(prefix="khiops-")
        numbers, categories = columns_of(train)
        types = dict.fromkeys(numbers, "float") | dict.fromkeys([*categories, LABEL], "str")
        Path(folder.name, "types.json").write_text(json.dumps(types))
        run("fit", train, folder.name)

        def predict(test: pa.Table) -> np.ndarray:
            run("predict", test, folder.name)
            probabilities: np.ndarray = np.load(Path(folder.name, "probabilities.npy"))
            return probabilities

        return predict

    def run(work: str, rows: pa.Table, folder: str) -> None:
        text = dict.fromkeys(columns_of(rows)[1], pa.string())
        schema = pa.schema([(name, text.get(name, rows[name].type)) for name in rows.schema.names])
        pyarrow.csv.write_csv(rows.cast(schema), Path(folder, "rows.csv"))
        script = Path(__file__).with_name("khiops_process.py")
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
        # One process, as the other models have one thread; more wait for one another in loops.
        settings = {"KHIOPS_PROC_NUMBER": "1", "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            [str(python), str(script), work, folder],
            env={**os.environ, **settings, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2])

    return Model(KHIOPS, "peer", "Khiops by its defaults: selective naive Bayes on bins", fit)
