"""The agent's home directory: what lies where, which paths are allowed, and how files are read and written safely."""

from .bootstrap import BootstrapFile, bootstrap
from .home import Home
from .place import Place, new_file, publish
from .roots import Roots

__all__ = ["BootstrapFile", "Home", "Place", "Roots", "bootstrap", "new_file", "publish"]
