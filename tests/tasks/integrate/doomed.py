"""An integrator that is killed (kill -9) before one of its steps; run as a program.

A step is a process of git, and the begin and the end of a transaction.
"""

import os
import signal
import sys
from itertools import count

import apsw

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.tasks.integrate.checks import CheckCommand
from ackbus.tasks.integrate.integrator import Integrator, IntegratorRules


def main(directory: str, folder: str, fatal: int, remote: str) -> None:
    numbers = count(1)

    def step() -> None:
        if next(numbers) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, told: tuple[object, ...]) -> None:
        if event == "subprocess.Popen" and told[0] == "git":
            step()

    def ran(_: apsw.Cursor, sql: str, __: object) -> bool:
        if sql.startswith(("BEGIN", "COMMIT")):
            step()
        return True

    with Bus.open(directory) as bus:
        rules = IntegratorRules(checks=(CheckCommand("test -e a"),), remote=remote or None)
        integrator = Integrator(bus, folder, rules)
        sys.addaudithook(heard)
        file_of(bus).connection.exec_trace = ran
        integrator.run(once=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
