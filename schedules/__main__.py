import sys

from schedules.run import main

sys.exit(main())
