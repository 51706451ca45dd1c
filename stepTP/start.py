"""Where the command `steptp` begins: Ctrl-C is answered from the first moment, while the command line still loads."""

import os
import signal


def main() -> None:
    """Runs the command of `sys.argv`."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(130))
    from stepTP import cli

    try:
        signal.signal(signal.SIGINT, before)
        cli.main()
    except KeyboardInterrupt:  # one more, while the first was answered
        os._exit(130)


if __name__ == "__main__":
    main()
