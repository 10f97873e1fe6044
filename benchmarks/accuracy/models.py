"""Models to compare: those of probclass, peers of other libraries, and the class prior.

A model is a function of training rows that returns a function of test rows. Peers get the columns
in the form that suits them: numbers standardized, nulls imputed, categories as one-hot columns, as
codes or as they are. Nothing is tuned per table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.accuracy.generators import LABEL, PARTITION

if TYPE_CHECKING:
    import pandas as pd

Fitted = Callable[[pa.Table], np.ndarray]
"""Class probabilities ``(n, k)`` of rows, columns in the order of the sorted training labels."""


Kind = Literal["ours", "peer", "reference"]


@dataclass(frozen=True)
class Model:
    """A way to classify.

    Attributes:
        name: name on the command line and in tables.
        kind: whether it is of this library, another one's, or a reference that needs none.
        description: one line on what it is.
        fit: function that fits it to rows with the column `LABEL`.
        package: module that must be installed, other than those of the extra `bench`.
    """

    name: str
    kind: Kind
    description: str
    fit: Callable[[pa.Table], Fitted]
    package: str | None = None


MODELS: dict[str, Model] = {}
"""The models by name, in the order of the tables of results."""

PRIOR = "class prior"
KHIOPS = "Khiops"
PEERS = ("EBM", "CatBoost", "LightGBM", "XGBoost")
CAREFUL = "LightGBM with care"


def _model(
    name: str, kind: Kind, package: str | None = None
) -> Callable[[Callable[[pa.Table], Fitted]], Callable[[pa.Table], Fitted]]:
    """Register a model, described by the first line of its docstring."""

    def register(fit: Callable[[pa.Table], Fitted]) -> Callable[[pa.Table], Fitted]:
        description = (fit.__doc__ or "").partition("\n")[0].removesuffix(".")
        MODELS[name] = Model(name, kind, description, fit, package)
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
    if PARTITION not in train.schema.names:
        return _fit(train, pc.ModelSpec.auto(train, LABEL, effort=effort))
    with tempfile.TemporaryDirectory(prefix="lake-") as lake:
        pq.write_to_dataset(train, lake, partition_cols=[PARTITION])
        return _fit(lake, pc.ModelSpec.auto(lake, LABEL, effort=effort))


@_model("product", "ours")
def product(train: pa.Table) -> Fitted:
    """The textbook's product: supervised bins and categories, one block per column."""
    return _fit(train, pc.ModelSpec(LABEL, _block_per_column(train)))


def _block_per_column(train: pa.Table) -> list[pc.Block]:
    numbers, categories = columns_of(train)
    blocks = [pc.Block("discretized", [name]) for name in numbers]
    return [*blocks, *(pc.Block("categorical", [name]) for name in categories)]


def _fit(train: pa.Table | str, spec: pc.ModelSpec) -> Fitted:
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
    import pandas as pd
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    numbers, _ = columns_of(train)
    deciles = _frame(train)[numbers].quantile(np.arange(0.1, 0.95, 0.1))
    edges = {name: [-np.inf, *deciles[name].dropna(), np.inf] for name in numbers}

    def binned(frame: pd.DataFrame) -> pd.DataFrame:
        bins = {
            name: pd.cut(frame[name], edges[name], include_lowest=True, duplicates="drop")
            for name in numbers
        }
        return frame.assign(**bins).astype(object).fillna("null").astype(str)

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    # Code 0 is for values that training did not see.
    codes = [FunctionTransformer(binned), encoder, FunctionTransformer(lambda x: x.astype(int) + 1)]
    levels = 1 + binned(_frame(train)).nunique()
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
    from sklearn.ensemble import HistGradientBoostingClassifier

    options = {"categorical_features": "from_dtype", "random_state": 0, **options}
    return _native(train, HistGradientBoostingClassifier(**options))


@_model("EBM", "peer", "interpret")
def explainable_boosting(train: pa.Table) -> Fitted:
    """InterpretML's ExplainableBoostingClassifier by its defaults but for one bag instead of 14."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return _native(train, ExplainableBoostingClassifier(outer_bags=1, n_jobs=1, random_state=0))


@_model("LightGBM", "peer", "lightgbm")
def lightgbm(train: pa.Table) -> Fitted:
    """LightGBM by its defaults, with categories and nulls."""
    from lightgbm import LGBMClassifier

    return _native(train, LGBMClassifier(n_jobs=1, verbose=-1, random_state=0))


@_model(CAREFUL, "peer", "lightgbm")
def careful_lightgbm(train: pa.Table) -> Fitted:
    """The same at a learning rate of 0.05, stopped early on the newest partition of training."""
    from lightgbm import LGBMClassifier, early_stopping

    shape, codes = _shaper(train), _codes(train)
    frame = shape(train)
    newest = train[PARTITION].to_numpy() == max(train[PARTITION].to_pylist())
    newest &= np.isin(codes, codes[~newest])  # rows of a new class are trained on
    model = LGBMClassifier(
        n_estimators=1_000, learning_rate=0.05, n_jobs=1, verbose=-1, random_state=0
    ).fit(
        frame[~newest],
        codes[~newest],
        eval_set=[(frame[newest], codes[newest])],
        callbacks=[early_stopping(50, verbose=False)],
    )
    return lambda test: np.asarray(model.predict_proba(shape(test)))


@_model("CatBoost", "peer", "catboost")
def catboost(train: pa.Table) -> Fitted:
    """CatBoost by its defaults but for 300 rounds instead of 1,000, with categories and nulls."""
    from catboost import CatBoostClassifier

    at = [name in columns_of(train)[1] for name in _frame(train)]
    options = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = CatBoostClassifier(300, random_seed=0, cat_features=np.flatnonzero(at), **options)
    return _native(train, model, as_text=True)


@_model("XGBoost", "peer", "xgboost")
def xgboost(train: pa.Table) -> Fitted:
    """XGBoost by its defaults, with categories and nulls."""
    from xgboost import XGBClassifier

    return _native(train, XGBClassifier(enable_categorical=True, n_jobs=1, random_state=0))


@_model(KHIOPS, "peer", "khiops")
def khiops(train: pa.Table) -> Fitted:
    """Khiops by its defaults: selective naive Bayes on bins."""
    from khiops.sklearn import KhiopsClassifier

    return _native(train, KhiopsClassifier(), as_text=True)


def _native(train: pa.Table, model: Any, *, as_text: bool = False) -> Fitted:
    """Fit a model that takes categories as they are."""
    shape = _shaper(train, as_text=as_text)
    model.fit(shape(train), _codes(train))
    order = np.argsort(model.classes_)
    return lambda test: np.asarray(model.predict_proba(shape(test)), dtype=float)[:, order]


def _codes(train: pa.Table) -> np.ndarray:
    return np.unique(train[LABEL].to_numpy(), return_inverse=True)[1]


def _shaper(train: pa.Table, *, as_text: bool = False) -> Callable[[pa.Table], pd.DataFrame]:
    """Function to frames in which categories are those of training, or text, without nulls.

    scikit-learn's boosting takes at most 255 categories of a column: the most frequent ones.
    """
    import pandas as pd

    levels = {
        str(name): pd.CategoricalDtype(sorted(values.value_counts().index[:255]))
        for name, values in _frame(train)[columns_of(train)[1]].items()
    }

    def shape(rows: pa.Table) -> pd.DataFrame:
        frame = _frame(rows).astype(levels)
        if as_text:
            texts = {name: frame[name].astype(object).fillna("null") for name in levels}
            frame = frame.assign(**texts)
        return frame.set_axis([f"x{j}" for j in range(frame.shape[1])], axis=1)

    return shape


def columns_of(table: pa.Table) -> tuple[list[str], list[str]]:
    """Names of the columns of numbers and of the other ones, label and partition left out."""
    numbers: list[str] = []
    categories: list[str] = []
    for field in table.schema:
        if field.name not in (LABEL, PARTITION):
            is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            (numbers if is_number else categories).append(field.name)
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
    return pd.DataFrame(columns, columns=[n for n in table.schema.names if n in columns])


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


def models_for(kind: str) -> tuple[str, ...]:
    """Names of the models that run by default on a kind of table."""
    few = (PRIOR, "default", "best", "logistic regression")
    if kind == "lakes":
        return (*few, "LightGBM", CAREFUL)
    if kind in ("keel", "protocol"):
        return (*few, "boosting", *PEERS, KHIOPS)
    left_out = {CAREFUL, *(PEERS if kind == "generated" else ())}
    return tuple(name for name in MODELS if name not in left_out)
