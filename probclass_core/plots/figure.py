"""A matplotlib figure that a notebook shows without pyplot and without a magic command."""

from __future__ import annotations

import io

from matplotlib import figure


class Figure(figure.Figure):
    """A figure that is its own picture in a notebook; pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png")
        return image.getvalue()
