"""Skill packages: folders with a SKILL.md in the open format, which sessions are offered and load on demand."""

from .library import SkillLibrary
from .scanner import SkillPackage
from .sources import package_sources

__all__ = ["SkillLibrary", "SkillPackage", "package_sources"]
