"""Write ``trips.csv``: dates, nulls and a boolean. Tips depend on hour, card and fare."""

import random
from pathlib import Path

random.seed(4)
lines = ["pickup,fare,zone,card,tipped"]
for row in range(3000):
    hour, card, fare = random.randrange(24), random.random() < 0.6, random.lognormvariate(2.5, 0.4)
    tipped = random.random() < 0.1 + 0.4 * (hour >= 16) + 0.2 * card + 0.2 * (fare > 13)
    day = f"2026-{1 + row // 1000:02}-{1 + row % 28:02}T{hour:02}:{row % 60:02}:00"
    known = "" if random.random() < 0.1 else f"{fare:.2f}"
    zone = random.choice(["north", "south", "west", ""])
    lines.append(f"{day},{known},{zone},{str(card).lower()},{'yes' if tipped else 'no'}")
Path("trips.csv").write_text("\n".join(lines), encoding="utf-8")
