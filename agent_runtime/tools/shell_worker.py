"""The program behind ShellReader: scripts as JSON strings on stdin, a line each, what they run as JSON on stdout."""

import dataclasses
import json
import os
import sys
import types

# The modules beside this one, without the package around them: that would load the whole runtime.
package = types.ModuleType("reading")
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules[package.__name__] = package


def main() -> None:
    from reading import shell  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    for line in sys.stdin:
        found = shell.commands(json.loads(line))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        print(json.dumps(dataclasses.asdict(found)), flush=True)  # noqa: T201  # pyright: ignore[reportUnknownArgumentType]


if __name__ == "__main__":
    main()
