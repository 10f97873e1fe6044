"""The laws of the contract, ready to be tried on any estimator.

- `suite`: `EstimatorLaws`, the class whose subclass makes pytest try every law.
- `generators`: columns, tables, parts and far-out rows, as Hypothesis strategies.
- `laws`, `scoring_laws`: each law as a plain function, which needs neither pytest nor Hypothesis.
- `law`: what makes a function a law, and what the message of its breaking tells.
- `trial`: an estimator with columns and options, which a law is tried on.
- `retyped`: the same values in other Arrow types and layouts.
- `comparison`: when two results say the same, and how a message shows that they do not.
- `broken`: estimators that break one law each, which the laws must reject.

`suite` and `generators` need the extra ``testing``.
"""
