"""`python -m agent_runtime serve`."""

import sys

from .cli.main import main

sys.exit(main())
