"""The teacher's command, ``python -m attention_tutorial.classroom COMMAND``: it runs `attention_classroom`."""

import sys

from attention_classroom.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
