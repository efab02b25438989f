"""Have every Python process whose PYTHONPATH names this folder live 400 days ahead: `make test-ahead`.

Python imports `sitecustomize` before anything else. Servers that the tests start inherit the path, and so the clock;
the monotonic clock and the times of files stay as they are.
"""

import time

import time_machine

DAYS = 400
time_machine.travel(time.time() + DAYS * 86_400, tick=True).start()
