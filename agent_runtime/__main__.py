"""`python -m agent_runtime serve`."""

import sys

from .cli import main

sys.exit(main())
