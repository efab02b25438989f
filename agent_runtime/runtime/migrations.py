"""The schema of the one database: the tables of each package, in the order of the numbers."""

from __future__ import annotations

from ..loop import MIGRATIONS as LOOP
from ..mediation import MIGRATIONS as MEDIATION
from ..memory import MIGRATIONS as MEMORY
from ..sessions import MIGRATIONS as SESSIONS
from ..skills import MIGRATIONS as SKILLS
from ..topics import MIGRATIONS as TOPICS

MIGRATIONS = (*SESSIONS, *LOOP, *SKILLS, *MEMORY, *MEDIATION, *TOPICS)
