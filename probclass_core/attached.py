"""Methods of classes that are defined further up, in modules that import these classes.

A model knows nothing of plots, SQL or files; still users look for `model.plot`, `model.to_sql` and
`model.save`. The bases here have no methods of their own: the public face,
``__init__.py``, attaches functions of other modules, and each is imported when it is first used.
Type checkers and editors find the functions in the stub ``attached.pyi``.
"""

from __future__ import annotations

from importlib import import_module


class ModelMethods:
    """Methods that are attached to `Model`."""


class ModelSpecMethods:
    """Methods that are attached to `ModelSpec`."""


class EvaluationMethods:
    """Methods that are attached to `Evaluation`."""


class ExplanationMethods:
    """Methods that are attached to `Explanation`."""


class ImportanceMethods:
    """Methods that are attached to `Importance`."""


def attach(base: type, name: str, address: str, kind: type | None = None) -> None:
    """Make a function a method, which is imported when it is first used.

    Args:
        base: class that gets the method.
        name: name of the method.
        address: module in this package and name of the function, ``module:name``.
        kind: what makes a method of the function: ``property`` or ``staticmethod``; by default it
            is a method as it is.
    """
    setattr(base, name, _Later(base, name, address, kind))


class _Later:
    """A method that replaces itself by its function when it is first looked up."""

    def __init__(self, base: type, name: str, address: str, kind: type | None) -> None:
        self._base, self._name, self._address, self._kind = base, name, address, kind

    def __get__(self, instance: object, owner: type) -> object:
        module, _, name = self._address.partition(":")
        function = getattr(import_module(f"{__package__}.{module}"), name)
        setattr(self._base, self._name, self._kind(function) if self._kind else function)
        return getattr(owner if instance is None else instance, self._name)
