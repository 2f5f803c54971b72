"""The helpers of the tests, where a test could pass or fail for the sake of its surroundings."""

import signal

from .conftest import hear_ctrl_c
from .programs import run_program

HANDLER = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_ctrl_c_reaches_what_tests_start_also_in_the_background_of_a_shell() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run_program(HANDLER) == "True\n"  # as the shell starts them
        hear_ctrl_c()
        assert run_program(HANDLER) == "False\n"
    finally:
        signal.signal(signal.SIGINT, before)
