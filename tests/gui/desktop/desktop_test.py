"""desktop_test.py SOURCE BUILD: the files by which a desktop knows the window name each other and what is installed, by one id. They are
read here, whatever tools are installed; where desktop-file-validate, appstreamcli and update-mime-database are, they are asked too."""

import configparser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ID = "org.zplan.zplan"
TYPE = "application/x-zplan-scenarios"
PROGRAM = "zplan-gui"
MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"
SVG = "{http://www.w3.org/2000/svg}"


def check_entry(path):
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(path.read_text(encoding="utf-8"))
    entry = parser["Desktop Entry"]
    assert entry["Type"] == "Application" and entry["Name"] == "zplan"
    # Files are opened, several at once.
    assert entry["Exec"].split() == [PROGRAM, "%F"] and entry["TryExec"] == PROGRAM
    assert entry["Icon"] == ID and entry["Terminal"] == "false"
    lists = ("Categories", "MimeType", *(key for key in entry if key.startswith("Keywords")))
    assert all(entry[key].endswith(";") for key in lists), lists
    assert entry["MimeType"].split(";")[:-1] == [TYPE]
    # Every text has a Chinese translation.
    for key in ("GenericName", "Comment", "Keywords"):
        assert entry[f"{key}[zh_CN]"] != entry[key], key


def check_metainfo(path):
    root = ElementTree.parse(path).getroot()
    assert root.get("type") == "desktop-application" and root.findtext("id") == ID
    assert root.findtext("launchable") == f"{ID}.desktop" and root.findtext("provides/binary") == PROGRAM
    assert root.findtext("provides/mediatype") == TYPE and root.findtext("project_license") == "Apache-2.0"
    summary = root.findtext("summary")
    assert 10 <= len(summary) <= 35 * 2 and not summary.endswith("."), summary
    assert sum(len(" ".join(each.itertext())) for each in root.findall("description/p")) > 200


def magic_of(mime_type):
    match = mime_type.find(f"{MIME}magic/{MIME}match")
    first, last = (int(each) for each in match.get("offset").split(":"))
    return first, last, match.get("value").encode()


def check_mime(path, scenario_file):
    types = ElementTree.parse(path).getroot().findall(f"{MIME}mime-type")
    assert [each.get("type") for each in types] == [TYPE]
    assert types[0].find(f"{MIME}glob").get("pattern") == "*.zplan"
    first, last, value = magic_of(types[0])
    # Both what the window writes and what stands on one line.
    for text in (scenario_file.read_bytes(), b'{"schema":"zplan.scenarios/1","scenarios":[]}'):
        assert first <= text.find(value) <= last, text[:80]
    assert b'{"schema": "zplan.report/1"}'.find(value) < 0


def check_icon(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == SVG + "svg" and root.get("viewBox") == "0 0 128 128"
    assert root.findtext(SVG + "title") == "zplan" and len(root.findall(f".//{SVG}rect")) >= 9
    # Nothing is fetched, nothing runs.
    assert not re.search(r"href|<script|<image|url\(", path.read_text(encoding="utf-8")), "the icon refers to something"


def check_install(build):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cmake", "--install", str(build / "gui" / "desktop"), "--prefix", folder], check=True, capture_output=True)
        share = next(each for each in pathlib.Path(folder).rglob("applications")).parent
        found = sorted(str(each.relative_to(share)) for each in share.rglob("*") if each.is_file())
    assert found == [f"applications/{ID}.desktop", f"icons/hicolor/scalable/apps/{ID}.svg", f"metainfo/{ID}.metainfo.xml",
                     f"mime/packages/{ID}.xml"], found


def ask(command):
    if not shutil.which(command[0]):
        print(f"{command[0]} is not installed")
        return
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, (command, result.stdout, result.stderr)


def ask_tools(folder):
    ask(["desktop-file-validate", "--warn-kde", folder / f"{ID}.desktop"])
    ask(["appstreamcli", "validate", "--no-net", folder / f"{ID}.metainfo.xml"])
    with tempfile.TemporaryDirectory() as mime:
        packages = pathlib.Path(mime, "packages")
        packages.mkdir()
        shutil.copy(folder / f"{ID}.xml", packages)
        ask(["update-mime-database", mime])


def main():
    source, build = map(pathlib.Path, sys.argv[1:])
    folder = source / "gui" / "desktop"
    check_entry(folder / f"{ID}.desktop")
    check_metainfo(folder / f"{ID}.metainfo.xml")
    check_mime(folder / f"{ID}.xml", source / "tests" / "cli" / "golden" / "scenarios.zplan")
    check_icon(folder / f"{ID}.svg")
    check_install(build)
    ask_tools(folder)


main()
