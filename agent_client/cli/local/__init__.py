"""The host on this machine: whether it runs, how it is started and stopped, its model, and the folders of its agents.

The host is another program. It is reached over HTTP, and by the file that it locks in its data folder.
"""

from ..host_lock import RunningHost, data_dir, running_host
from .check_model import check_model
from .choose_model import ModelOptions, choose_model
from .folders import FOLDER_SETTING, find_workspace, id_of, open_folder
from .host_process import LOG_NAME, log_tail, start_host, stop_host, why_there
from .model_choice import (
    VARIABLES,
    ModelChoice,
    Provider,
    ignored_variables,
    load_choice,
    models_in_words,
    saved_if_it_works,
)
from .operator_token import ensure_operator_token, operator_token_file
from .up_lock import one_at_a_time

__all__ = [
    "FOLDER_SETTING",
    "LOG_NAME",
    "VARIABLES",
    "ModelChoice",
    "ModelOptions",
    "Provider",
    "RunningHost",
    "check_model",
    "choose_model",
    "data_dir",
    "ensure_operator_token",
    "find_workspace",
    "id_of",
    "ignored_variables",
    "load_choice",
    "log_tail",
    "models_in_words",
    "one_at_a_time",
    "open_folder",
    "operator_token_file",
    "running_host",
    "saved_if_it_works",
    "start_host",
    "stop_host",
    "why_there",
]
