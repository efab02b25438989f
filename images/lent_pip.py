"""Prints the folder in which this Python's own pip lies as a wheel. The base has none, so it is lent to the build."""

import sys
import sysconfig
from pathlib import Path

try:
    import ensurepip
except ImportError:
    sys.exit("image: this Python has no ensurepip; install Debian's python3-venv")

# Debian keeps wheels in a folder of their own.
wheel_folders = (
    Path(ensurepip.__file__).parent / "_bundled",
    Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "/nowhere"),
)
for place in wheel_folders:
    if any(place.glob("pip-*.whl")):
        print(place)
        break
else:
    sys.exit(f"image: no wheel of pip in {wheel_folders[0]} or {wheel_folders[1]}; install Debian's python3-venv")
