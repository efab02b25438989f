"""The agent's home directory: what lies where, which paths are allowed, and how files are read and written safely."""

from .backups import MOST_BYTES as MOST_BACKUPS
from .backups import Backups, Kept
from .bootstrap import CAPS as PROMPT_CAPS
from .bootstrap import BootstrapFile, bootstrap
from .conditions import Conditions
from .copies import SKILL_HISTORY, folder_of_copies, originals
from .diary import DiaryKeeper
from .home import Home
from .instructions import Instructions, instructions
from .learnings import LearningKeeper, NoLearnings, corrects, may_correct
from .locks import PathLocks
from .memory import MIGRATIONS, Answer, Meaning, MemoryKeeper, NoMemory, Saved
from .personal import OPERATOR, own_folder, personal_folder, place_of
from .place import Place, new_file, publish
from .ration import Ration
from .roots import Roots
from .shelf import OWN_BACKUPS, Opened, Shelf, Stored

__all__ = [
    "MIGRATIONS",
    "MOST_BACKUPS",
    "OPERATOR",
    "OWN_BACKUPS",
    "PROMPT_CAPS",
    "SKILL_HISTORY",
    "Answer",
    "Backups",
    "BootstrapFile",
    "Conditions",
    "DiaryKeeper",
    "Home",
    "Instructions",
    "Kept",
    "LearningKeeper",
    "Meaning",
    "MemoryKeeper",
    "NoLearnings",
    "NoMemory",
    "Opened",
    "PathLocks",
    "Place",
    "Ration",
    "Roots",
    "Saved",
    "Shelf",
    "Stored",
    "bootstrap",
    "corrects",
    "folder_of_copies",
    "instructions",
    "may_correct",
    "new_file",
    "originals",
    "own_folder",
    "personal_folder",
    "place_of",
    "publish",
]
