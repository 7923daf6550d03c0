"""python -m zplan.trace MODEL"""

import sys

from zplan.trace.command import main

if __name__ == "__main__":
    sys.exit(main())
