"""Tells the trials whose names have all words, and counts those that hold.

    run.py TARGET [WORD...]
"""

import os
import sys
import time

from bench import Failed
from checks import TRIALS as CHECKS
from other_servers import TRIALS as OTHER_SERVERS
from servers import TRIALS as SERVERS
from tools import Tools

TRIALS = {**SERVERS, **OTHER_SERVERS, **CHECKS}


def main():
    target, words = sys.argv[1], sys.argv[2:]
    tools = Tools(os.environ["SALVE"], target)
    wanted = {name: trial for name, trial in TRIALS.items() if all(word in name for word in words)}
    held = 0
    for name, trial in wanted.items():
        begun = time.monotonic()
        try:
            trial(tools)
            held += 1
            print(f"ok    {time.monotonic() - begun:5.1f} s  {name}", flush=True)
        except (Failed, AssertionError, OSError) as error:
            print(f"FAILS {time.monotonic() - begun:5.1f} s  {name}\n{error}\n", flush=True)
    print(f"{held} of {len(wanted)} trials hold")
    sys.exit(0 if held == len(wanted) else 1)


main()
