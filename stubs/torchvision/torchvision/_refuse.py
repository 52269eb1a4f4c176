"""What every module of the stand-in answers for a name that it does not have."""

from collections.abc import Callable
from typing import Any, NoReturn


def refusing(module: str) -> Callable[[str], Any]:
    """A module `__getattr__`: any name imports, and raises RuntimeError once it is called."""

    def __getattr__(name: str) -> Callable[..., NoReturn]:
        # Import machinery and inspect probe dunders; to answer them would mislead both.
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            raise RuntimeError(
                f"{module}.{name} was called, but this environment has only an import-only "
                "stand-in for torchvision: images are not supported on CPU."
            )

        return refuse

    return __getattr__
