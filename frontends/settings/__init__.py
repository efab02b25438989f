"""Which bots there are, and what they may use."""

from .environment import LOADER, BotsEnvironment
from .loading import BotSettings, BotsSettings, load_data_dir, load_settings

__all__ = ["LOADER", "BotSettings", "BotsEnvironment", "BotsSettings", "load_data_dir", "load_settings"]
