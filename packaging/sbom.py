#!/usr/bin/env python3
"""Writes what a package was made from, with versions and licences, as CycloneDX 1.5: sbom.py NAME VERSION OUT PACKAGE…

PACKAGE: a Debian package that is installed, whose version dpkg knows and whose licences are in its copyright file, or
several of which one is, as NAME|NAME, where releases name it differently; or NAME=VERSION:LICENCE of anything else.
Status 1 and a sentence where one is not known. The time is SOURCE_DATE_EPOCH, so that a package is the same bytes
whenever it is made.
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

# Debian's short names of licences that SPDX writes otherwise.
SPDX = {"Expat": "MIT", "MPL2": "MPL-2.0", "MPL-2": "MPL-2.0", "GPL-2+": "GPL-2.0-or-later", "GPL-3+": "GPL-3.0-or-later", "GPL-2": "GPL-2.0-only",
        "GPL-3": "GPL-3.0-only", "LGPL-2.1+": "LGPL-2.1-or-later", "LGPL-3": "LGPL-3.0-only", "BSD-3-clause": "BSD-3-Clause",
        "BSD-2-clause": "BSD-2-Clause", "Apache-2.0": "Apache-2.0", "MPL-2.0": "MPL-2.0", "MIT": "MIT", "curl": "curl"}
# Those whose copyright files are not in Debian's machine-readable form.
KNOWN = {"libyaml": "MIT", "curl": "curl", "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1", "fmtlib": "MIT", "glibc": "LGPL-2.1-or-later",
         "openmpi": "BSD-3-Clause-Open-MPI", "hwloc": "BSD-3-Clause"}


def fail(text):
    sys.exit(f"sbom.py: {text}")


def of_dpkg(package):
    """The package's name, version and source package."""
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}\\t${Package}\\t${Version}\\t${source:Package}\\n", *package.split("|")],
                           capture_output=True, text=True, check=False)
    for line in asked.stdout.splitlines():
        status, name, version, source = line.split("\t")
        if status == "installed":
            return name, version, re.sub(r"-\d+$", "", source)
    return fail(f"{package} is no installed package")


def licence_of(package, source):
    """The licence of most files, and then of others, as the copyright file says."""
    if source in KNOWN:
        return KNOWN[source]
    try:
        with open(f"/usr/share/doc/{package}/copyright", encoding="utf-8", errors="replace") as file:
            paragraphs = re.split(r"\n\s*\n", file.read())
    except OSError as error:
        return fail(f"no licence of {package}: {error}")
    for paragraph in paragraphs:
        files = re.search(r"^Files:\s*\*\s*$", paragraph, re.M)
        licence = re.search(r"^License:\s*(\S.*)$", paragraph, re.M)
        if files and licence:
            words = [SPDX.get(each.strip(), each.strip()) for each in re.split(r"\s+(?:or|and)\s+|,", licence.group(1)) if each.strip()]
            joined = " OR " if " or " in licence.group(1) else " AND "
            return joined.join(words)
    return fail(f"no licence of {package} in its copyright file; name it in KNOWN")


def component(package):
    if "=" in package:
        name, rest = package.split("=", 1)
        version, licence = rest.split(":", 1)
        return {"type": "library", "name": name, "version": version, "licenses": [{"expression": licence}]}
    name, version, source = of_dpkg(package)
    purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace('~', '~')}?arch={os.uname().machine.replace('x86_64', 'amd64')}"
    licence = licence_of(name, source)
    known = re.fullmatch(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*", licence)
    return {"type": "library", "bom-ref": purl, "name": source, "version": version, "purl": purl,
            "licenses": [{"expression": licence} if known else {"license": {"name": licence}}]}


def main():
    name, version, out, *packages = sys.argv[1:]
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    components = sorted((component(each) for each in packages), key=lambda each: each["name"])
    text = json.dumps(components, sort_keys=True)
    made = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "serialNumber": f"urn:uuid:{uuid.UUID(hashlib.sha256((name + version + text).encode()).hexdigest()[:32], version=4)}",
            "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "component": {"type": "application", "bom-ref": name, "name": name, "version": version,
                                       "licenses": [{"expression": "Apache-2.0"}]}},
            "components": components}
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
