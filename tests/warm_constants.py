"""What does Hypothesis read of every module, once for all parts of a run?

The constants of the package, which it tries as values. A process that forks afterwards has them.
"""

from hypothesis import configuration
from hypothesis.internal.conjecture import providers

providers._get_local_constants()
# Its plugin would warn of what takes long before pytest runs: here that is what is wanted.
configuration.notice_initialization_restarted(warn=False)
