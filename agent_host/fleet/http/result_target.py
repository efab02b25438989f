"""Where a workspace wants results of its tasks sent, as callers declare it."""

from __future__ import annotations

from dataclasses import dataclass

from ...callback_targets import CallbackTargets
from ...errors import InvalidRequest
from ...listener import Listener
from .schemas import ChangeWorkspace


@dataclass(frozen=True, slots=True)
class ResultTarget:
    """The URL, None for none, and the secret that signs; None: as it is."""

    url: str | None
    secret: str | None


def changed_target(
    body: ChangeWorkspace, workspace_id: str, listener: Listener, targets: CallbackTargets
) -> ResultTarget | None:
    """Return what a change makes of the workspace's target; None if that stays as it is. Raises InvalidRequest and
    NotFound."""
    given = body.model_fields_set & {"result_url", "result_secret"}
    if not given:
        return None
    url = listener.channels.get(workspace_id).result_url
    if "result_url" in given:
        url = targets.require("result_url", body.result_url) if body.result_url is not None else None
    if url is not None and body.result_secret is None and listener.workspaces.result_secret(workspace_id) is None:
        why = "is missing: this workspace was made before there were secrets, so give one with result_url"
        raise InvalidRequest.from_faults([("result_secret", why)])
    return ResultTarget(url, body.result_secret)
