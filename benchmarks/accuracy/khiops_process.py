"""One Khiops fit or prediction, run as a script by an interpreter that has the package `khiops`.

``python khiops_process.py fit FOLDER`` reads ``rows.csv`` and ``types.json``, and saves a model;
``predict`` reads it and other rows, and writes ``probabilities.npy``.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd

LABEL = "label"


def main(work: str, folder: Path) -> None:
    """Fit or predict."""
    types = json.loads((folder / "types.json").read_text())
    rows = pd.read_csv(folder / "rows.csv", dtype=types, keep_default_na=False, na_values=[""])
    features = rows.drop(columns=LABEL, errors="ignore")
    if work == "fit":
        from khiops.sklearn import KhiopsClassifier

        model = KhiopsClassifier().fit(features, rows[LABEL])
        (folder / "model.pickle").write_bytes(pickle.dumps(model))
    else:
        model = pickle.loads((folder / "model.pickle").read_bytes())
        probabilities = model.predict_proba(features)
        order = np.argsort(np.asarray(model.classes_, dtype=str))
        np.save(folder / "probabilities.npy", np.asarray(probabilities, dtype=float)[:, order])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
