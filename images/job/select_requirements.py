"""Print the locked requirements of a storage job: of all that CodeHub installs, the packages it loads."""

import re
import sys

NEEDED = {"obstore", "pyfastcdc", "typing-extensions", "zstandard"}

entries = re.split(r"\n(?=\S)", sys.stdin.read())
chosen = [entry for entry in entries if entry.partition("==")[0] in NEEDED]
sys.stdout.write("\n".join(chosen) + "\n")
