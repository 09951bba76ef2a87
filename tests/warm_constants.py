"""What does Hypothesis read or work out that is always the same, once for all parts of a run?

The constants of the package, which it tries as values, and the characters that UTF-8 has. A process
that forks afterwards has them.
"""

from hypothesis import configuration
from hypothesis.internal.charmap import intervals_from_codec
from hypothesis.internal.conjecture import providers

providers._get_local_constants()
intervals_from_codec("utf-8")
# Its plugin would warn of what takes long before pytest runs: here that is what is wanted.
configuration.notice_initialization_restarted(warn=False)
