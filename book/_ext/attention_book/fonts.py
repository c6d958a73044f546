"""Cut a font down to the characters that the site uses."""

import shutil
from collections.abc import Set
from pathlib import Path

from fontTools import subset


def write_subset(source: Path, codes: Set[int], target: Path) -> None:
    """Write the glyphs of some code points from a font into a WOFF file; the same input gives the same bytes.

    Args:
        source: A font file (TTF, OTF, WOFF).
        codes: The code points to keep. Those that the font lacks are left out; a font that lacks all stays whole.
        target: The file to write.
    """
    options = subset.Options(flavor="woff", notdef_outline=True, recalc_timestamp=False, layout_features=["*"])
    options.drop_tables += ["FFTM"]  # the date of a font editor
    font = subset.load_font(str(source), options)
    if not set(codes) & set(font.getBestCmap()):
        shutil.copyfile(source, target)  # browsers reject a font without characters
        return
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=codes)
    cutter.subset(font)
    subset.save_font(font, str(target), options)
