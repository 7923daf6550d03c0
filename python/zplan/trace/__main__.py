"""python -m zplan.trace MODEL"""

import sys

from zplan.trace.command import main

sys.exit(main())
