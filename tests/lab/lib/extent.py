"""How much of the lab's tests is wanted."""

import os
import unittest

#: All cases, as by tests/lab/run --full; else a sample of those that take long.
FULL = bool(os.environ.get("MARE_TEST_FULL"))
#: For a test of up to minutes, of what others and the simulator show as well.
IN_FULL = unittest.skipUnless(FULL, "with tests/lab/run --full")
