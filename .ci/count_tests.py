"""Counts test cases: count_tests.py BUILD_FOLDER → "PASSED FAILED SKIPPED".
A GoogleTest executable is one ctest entry whose cases stand in test-results/NAME.xml; any other entry is one case.
An executable that died before it could write its results counts as one failure."""
import os
import sys
import xml.etree.ElementTree as xml

build = sys.argv[1]
passed = failed = skipped = 0
for entry in xml.parse(os.path.join(build, "tests.xml")).getroot().iter("testcase"):
    results = os.path.join(build, "test-results", entry.get("name") + ".xml")
    broke = entry.get("status") == "fail"
    if entry.get("status") in ("notrun", "disabled"):
        skipped += 1
    elif not os.path.exists(results):
        passed, failed = passed + (not broke), failed + broke
    else:
        cases = xml.parse(results).getroot()
        count = {key: int(cases.get(key, "0")) for key in ("tests", "failures", "errors", "disabled", "skipped")}
        bad = count["failures"] + count["errors"]
        idle = count["disabled"] + count["skipped"]
        bad = max(bad, 1) if broke else bad
        failed, skipped = failed + bad, skipped + idle
        passed += count["tests"] - bad - idle
print(passed, failed, skipped)
