"""The agent's home directory: what lies where, which paths are allowed, and how files are read and written safely."""

from .allowed_roots import Roots
from .backups import MOST_BYTES as MOST_BACKUPS
from .backups import Backups, Kept
from .copies import SKILL_HISTORY, folder_of_copies, originals
from .decoding import as_text
from .home import Home
from .http.file_service import OWN_BACKUPS, Opened, Shelf, Stored
from .http.preconditions import Conditions
from .http.write_quota import Ration
from .locks import PathLocks
from .principal_paths import NAMES, OPERATOR, PEOPLE, own_folder, personal_folder, place_of
from .prompt_files.bootstrap import CAPS as PROMPT_CAPS
from .prompt_files.bootstrap import BootstrapFile, bootstrap
from .prompt_files.instructions import Instructions, instructions
from .safe_path import Place, new_file, publish

__all__ = [
    "MOST_BACKUPS",
    "NAMES",
    "OPERATOR",
    "OWN_BACKUPS",
    "PEOPLE",
    "PROMPT_CAPS",
    "SKILL_HISTORY",
    "Backups",
    "BootstrapFile",
    "Conditions",
    "Home",
    "Instructions",
    "Kept",
    "Opened",
    "PathLocks",
    "Place",
    "Ration",
    "Roots",
    "Shelf",
    "Stored",
    "as_text",
    "bootstrap",
    "folder_of_copies",
    "instructions",
    "new_file",
    "originals",
    "own_folder",
    "personal_folder",
    "place_of",
    "publish",
]
