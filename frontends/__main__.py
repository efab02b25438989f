"""`python -m frontends` is the command `agent bots`."""

import sys

from .cli import main

sys.exit(main())
