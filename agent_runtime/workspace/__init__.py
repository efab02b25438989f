"""The agent's home directory: its layout, the paths that tools may use, and safe reading and writing of files."""

from .alike_names import ALIKE_SIGNS, SIGN_FORMS
from .allowed_roots import AllowedRoots
from .backups import MAX_BACKUP_BYTES, BackupCopy, FileBackups
from .copies import SKILL_HISTORY, folder_of_copies, originals
from .decoding import decode_text
from .home import Home
from .http.file_service import OWN_BACKUPS, FileService, OpenedFile, StoredFile
from .http.preconditions import Preconditions
from .http.write_quota import WriteQuota
from .locks import PathLocks
from .principal_paths import (
    OPERATOR,
    PERSONAL_NAMES,
    PRINCIPALS_FOLDER,
    make_personal_folder,
    personal_folder,
    resolve_for_principal,
)
from .prompt_files.authorship import PromptFileAuthors, Writer
from .prompt_files.bootstrap import PROMPT_CAPS as PROMPT_CAPS
from .prompt_files.bootstrap import UNREVIEWED, BootstrapFile, read_bootstrap_files
from .prompt_files.instructions import Instructions, read_instructions
from .prompt_files.package_walk import (
    A_LINK,
    ARCHIVES,
    PACKAGE_FILE,
    PackageWalk,
    is_nearly_package,
    is_package_file,
)
from .prompt_files.watched_call import watch_call
from .prompt_files.watched_files import PACKAGE_FOLDERS, is_instructions
from .safe_path import IncomingFile, SafePath, create_output_file, write_atomically
from .symlinks import MAX_LINK_STEPS, TooFar, is_below, resolve_links

__all__ = [
    "ALIKE_SIGNS",
    "ARCHIVES",
    "A_LINK",
    "MAX_BACKUP_BYTES",
    "MAX_LINK_STEPS",
    "OPERATOR",
    "OWN_BACKUPS",
    "PACKAGE_FILE",
    "PACKAGE_FOLDERS",
    "PERSONAL_NAMES",
    "PRINCIPALS_FOLDER",
    "PROMPT_CAPS",
    "SIGN_FORMS",
    "SKILL_HISTORY",
    "UNREVIEWED",
    "AllowedRoots",
    "BackupCopy",
    "BootstrapFile",
    "FileBackups",
    "FileService",
    "Home",
    "IncomingFile",
    "Instructions",
    "OpenedFile",
    "PackageWalk",
    "PathLocks",
    "Preconditions",
    "PromptFileAuthors",
    "SafePath",
    "StoredFile",
    "TooFar",
    "WriteQuota",
    "Writer",
    "create_output_file",
    "decode_text",
    "folder_of_copies",
    "is_below",
    "is_instructions",
    "is_nearly_package",
    "is_package_file",
    "make_personal_folder",
    "originals",
    "personal_folder",
    "read_bootstrap_files",
    "read_instructions",
    "resolve_for_principal",
    "resolve_links",
    "watch_call",
    "write_atomically",
]
