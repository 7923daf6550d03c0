"""Makes the fonts beside this file: of Noto's, what the texts of the window are written with, in both languages.

make_fonts.py FOLDER with NotoSans-Regular.ttf, NotoSans-Bold.ttf, NotoSansMath-Regular.ttf and NotoSansCJK-Regular.ttc below
it, as Debian's packages fonts-noto-core and fonts-noto-cjk have them; needs fonttools. Their families are called after zplan,
so that they never stand in for a whole Noto font that is installed. Wanted when a test of the window (Glyphs) misses a sign."""

import pathlib
import sys

from fontTools import subset
from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What names of models, GPUs and files may hold, beside what texts do.
LATIN = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x370, 0x400), *range(0x2010, 0x2028), *range(0x2030, 0x203B),
         *range(0x2070, 0x209D)]
SIGNS = [ord(sign) for sign in "→−≈≠≤≥⌈⌉⌊⌋√∞"]  # of formulas: in Noto's font of mathematics


def chinese():
    texts = [path.read_text() for path in (ROOT / "gui").rglob("*.ts")] + [(ROOT / "docs/desktop.zh_CN.md").read_text(), "简体中文"]
    punctuation = [*range(0x3000, 0x3020), *range(0xFF01, 0xFF5F)]
    return sorted({ord(sign) for text in texts for sign in text if 0x2E80 <= ord(sign)} | set(punctuation))


def reduced(font, characters, **more):
    options = subset.Options(**more, hinting=False, name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14], notdef_outline=True, glyph_names=False)
    options.drop_tables += ["vhea", "vmtx", "VORG", "DSIG"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)


def add_signs(font, other):
    """The outlines of `other`, at this font's line height."""
    glyphs, order = other.getGlyphSet(), font.getGlyphOrder()
    names = {sign: f"sign{sign:04X}" for sign in SIGNS if sign not in font.getBestCmap()}
    font.setGlyphOrder(order + list(names.values()))
    for sign, name in names.items():
        source = other.getBestCmap()[sign]
        outline, pen = DecomposingRecordingPen(glyphs), TTGlyphPen(None)
        glyphs[source].draw(outline)
        outline.replay(pen)
        font["glyf"][name] = pen.glyph()
        font["hmtx"][name] = other["hmtx"][source]
        for table in font["cmap"].tables:
            if table.isUnicode():
                table.cmap[sign] = name


def rename(font, family):
    style = str(font["name"].getName(2, 3, 1, 0x409))
    for number, text in ((1, family), (4, f"{family} {style}"), (6, f"{family.replace(' ', '')}-{style}")):
        font["name"].removeNames(nameID=number)
        font["name"].setName(text, number, 3, 1, 0x409)


def save(font, family, path):
    rename(font, family)
    font.save(path)
    print(path.name, path.stat().st_size)


def main():
    found = {path.name: path for path in pathlib.Path(sys.argv[1]).rglob("Noto*")}
    for style in ("Regular", "Bold"):
        font = TTFont(found[f"NotoSans-{style}.ttf"], recalcTimestamp=False)
        reduced(font, LATIN)
        add_signs(font, TTFont(found["NotoSansMath-Regular.ttf"]))
        save(font, "zplan Sans", HERE / f"zplan-sans-{style.lower()}.ttf")
    collection = TTFont(found["NotoSansCJK-Regular.ttc"], fontNumber=2, recalcTimestamp=False)  # simplified Chinese
    reduced(collection, chinese(), layout_features=[])
    save(collection, "zplan Sans SC", HERE / "zplan-sans-sc.otf")


if __name__ == "__main__":
    main()
