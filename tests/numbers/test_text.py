"""Real text with thousands of documents: agreement with scikit-learn, memory, and accuracy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq
import pytest
from model_values import fitted
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import BernoulliNB, MultinomialNB
from text_data import documentation

import probclass_core as pc

RUN = Path(__file__).parent / "measure_text_memory.py"
PEERS = {"bernoulli": BernoulliNB, "multinomial": MultinomialNB}
every_peer = pytest.mark.parametrize("estimator", PEERS)


@pytest.fixture(scope="module")
def documents() -> pa.Table:
    return documentation()


@pytest.fixture(scope="module")
def halves(documents: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Every other document to train on, the rest to test."""
    rows = np.arange(documents.num_rows)
    return documents.take(rows[::2]), documents.take(rows[1::2])


def terms_of(table: pa.Table) -> int:
    return len(compute.unique(compute.list_flatten(table["words"])))


@every_peer
def test_classification_of_text_agrees_with_scikit_learn(
    estimator: str, halves: tuple[pa.Table, pa.Table]
) -> None:
    train, test = halves
    counter = CountVectorizer(analyzer=lambda words: words)
    labels = train["package"].to_pylist()
    peer = PEERS[estimator]().fit(counter.fit_transform(train["words"].to_pylist()), labels)
    model = fitted(train, "package", pc.Block(estimator, ["words"]))
    parameters = model.parameters[estimator]
    shape = peer.feature_log_prob_.shape
    order = counter.get_feature_names_out().searchsorted(
        np.array(parameters["feature"].to_pylist()[: shape[1]])
    )
    np.testing.assert_allclose(
        parameters["log_probability"].to_numpy().reshape(shape),
        peer.feature_log_prob_[:, order],
        rtol=1e-9,
    )
    counts = counter.transform(test["words"].to_pylist())
    np.testing.assert_allclose(
        model.predict_log_proba(test), peer.predict_log_proba(counts), rtol=1e-9, atol=1e-8
    )
    assert model.predict(test).to_pylist() == peer.predict(counts).tolist()


@pytest.mark.nightly
@every_peer
def test_memory_grows_with_the_words_not_with_rows_times_terms(
    estimator: str, documents: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "words.parquet"
    pq.write_table(documents, path)
    run = subprocess.run(
        [sys.executable, RUN, path, estimator],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    dense = documents.num_rows * terms_of(documents) * 8 / 2**20
    words = len(compute.list_flatten(documents["words"]))
    assert float(run.stdout) < 150 * words / 2**20 < dense / 10
