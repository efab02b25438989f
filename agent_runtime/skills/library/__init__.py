"""Knowledge in folders: SKILL.md packages of the open format, found in a fixed order, advertised, then loaded."""

from .library import SkillLibrary
from .scanner import SkillPackage
from .sources import package_sources

__all__ = ["SkillLibrary", "SkillPackage", "package_sources"]
