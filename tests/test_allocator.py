"""Memory of freed arrays is reused."""

import subprocess
import sys

import pytest

LOOP = """
import resource, sys
if sys.argv[1] == "keep":
    from gradsim.allocator import keep_freed_memory
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    block = b"x" * 40_000_000
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    return int(subprocess.run([sys.executable, "-c", LOOP, mode], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the C library of Linux has these settings")
def test_kept_memory_is_not_cleared_again():
    assert page_faults("keep") < 0.2 * page_faults("return")
