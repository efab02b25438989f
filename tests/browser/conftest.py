"""The page is tested where `make page-test` has installed a browser, and not by a plain pytest."""

from __future__ import annotations

import os

collect_ignore = [] if "PAGE_TEST" in os.environ else ["test_page.py"]
