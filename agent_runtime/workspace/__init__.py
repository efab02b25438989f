"""The agent's home directory: what lies where, which paths are allowed, and how files are read and written safely."""

from .allowed_roots import AllowedRoots
from .backups import MOST_BYTES as MOST_BACKUPS
from .backups import BackupCopy, FileBackups
from .copies import SKILL_HISTORY, folder_of_copies, originals
from .decoding import as_text
from .home import Home
from .http.file_service import OWN_BACKUPS, FileService, OpenedFile, StoredFile
from .http.preconditions import Preconditions
from .http.write_quota import WriteQuota
from .locks import PathLocks
from .principal_paths import NAMES, OPERATOR, PEOPLE, own_folder, personal_folder, place_of
from .prompt_files.bootstrap import CAPS as PROMPT_CAPS
from .prompt_files.bootstrap import BootstrapFile, bootstrap
from .prompt_files.instructions import Instructions, instructions
from .safe_path import SafePath, new_file, publish

__all__ = [
    "MOST_BACKUPS",
    "NAMES",
    "OPERATOR",
    "OWN_BACKUPS",
    "PEOPLE",
    "PROMPT_CAPS",
    "SKILL_HISTORY",
    "AllowedRoots",
    "BackupCopy",
    "BootstrapFile",
    "FileBackups",
    "FileService",
    "Home",
    "Instructions",
    "OpenedFile",
    "PathLocks",
    "Preconditions",
    "SafePath",
    "StoredFile",
    "WriteQuota",
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
