"""The command: ``python -m attention_tutorial.testing module:object [name=value ...]``."""

import ast
import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from . import BrokenLaws, check_attention, check_layer


def main(arguments: Sequence[str]) -> int:
    """Examine what ``module:object`` names, with conventions as ``name=value``.

    Args:
        arguments: of the command line.

    Returns:
        0 if all laws hold, 1 if some do not, 2 if they cannot be tested.
    """
    sys.path.insert(0, "")
    try:
        (module, attribute), *conventions = [part.split(":" if i == 0 else "=", 1) for i, part in enumerate(arguments)]
        named: dict[str, Any] = dict(conventions)
        for name, text in named.items():
            with contextlib.suppress(ValueError, SyntaxError):
                named[name] = ast.literal_eval(text)
        code = getattr(importlib.import_module(module), attribute)
        laws = (check_layer if "d_model" in named else check_attention)(code, **named)
    except BrokenLaws as broken:
        print(broken)
        return 1
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        print(f"usage: python -m attention_tutorial.testing module:object [name=value ...]\n{error}", file=sys.stderr)
        return 2
    print(f"{len(laws)} laws hold: {', '.join(map(str, laws))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
