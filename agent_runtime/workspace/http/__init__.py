"""Files of the workspace as callers over HTTP see them."""
