"""What a user types, in under 15 lines."""

import probclass_core as pc

january, march = "pickup < '2026-02-01'", "pickup >= '2026-03-01'"
model = pc.fit("trips.csv", label="tipped", where=january)
print(model)
evaluation = pc.evaluate(model, "trips.csv", where=march)
print(evaluation.report())
print(pc.explain(model, "trips.csv", where=march, rows=[0]))
model.plot.effect("fare").savefig("fare.png")
model.save("model")
report = pc.score(pc.load("model"), "trips.csv", "scored.parquet", where=march)
print(report.rows, "rows scored")
