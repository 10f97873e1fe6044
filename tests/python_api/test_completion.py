"""The names that editors and notebooks complete."""

from __future__ import annotations

import probclass_core as pc


def test_names_without_a_meaning_of_their_own_are_hidden() -> None:
    """Completion lists public names only, also after submodules were imported."""
    assert sorted(dir(pc)) == sorted(pc.__all__)
    model = pc.fit({"x": [1.0, 2.0, 3.0, 4.0], "y": list("aabb")}, label="y")
    documented = str(pc.Model.__doc__)
    for name in (name for name in dir(model) if not name.startswith("_")):
        assert f"        {name}: " in documented or getattr(pc.Model, name).__doc__, name
