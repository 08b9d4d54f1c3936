"""How much of the lab's tests is wanted."""

import os

#: All cases, as by tests/lab/run --full; else a sample of those that take long.
FULL = bool(os.environ.get("MARE_TEST_FULL"))
