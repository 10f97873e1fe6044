# A partitioned lake and cron: fit, gate, score, roll back, with one probclass.toml.
set -euo pipefail
python -m probclass_core.demo.lake lake
cat > probclass.toml <<'TOML'
store = "models"
source = "lake"
sink = "scored"
model = "air@champion"
label = "air"
exclude = "pm25"
effort = "fast"

[fit]
alias = "new"

[promote]
model = "air@new"
TOML

# The job of cron, for two months
probclass fit --where "month >= 2012-07" --where "month < 2013-01"
probclass promote --if-better --partition month=2013-01
probclass score --partition month=2013-02
probclass fit --where "month >= 2012-02" --where "month < 2013-02"
probclass promote --if-better --partition month=2013-02
probclass score --partition month=2013-03
probclass score --partition month=2013-03

# Back to the champion of the first month
probclass rollback --reason "looks odd"
probclass score --partition month=2013-03
probclass models history
