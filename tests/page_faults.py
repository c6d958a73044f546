"""What can be wrong with a page in a browser: each function takes a page that has loaded and lists the faults it sees.

An empty list means that nothing was found. tests/site/test_browser.py shows every function a page that is wrong, too.
"""

import re
from pathlib import Path

LONGEST_MOTION = 0.2  # seconds, where less motion is asked for
LEAST_CONTRAST = 4.5  # of letters and their ground (WCAG 2, AA); large letters need 3
SOURCE = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def ask(page, function, argument=None):
    """Call a function of page_faults.js in the page."""
    return page.evaluate(f"(argument) => {{\n{SOURCE}\nreturn {function}(argument);\n}}", argument)


def raw_markup(page):
    """List formulas that were not set, and markup that stands in the text."""
    text = ask(page, "prose")
    patterns = (
        r".{0,30}\$.{0,30}",
        r".{0,30}\\[(\[A-Za-z].{0,30}",
        r"\{[a-z]+(?::[a-z]+)?\}`",
        r":{3,}",
        r"\]\([^)]*\)",
    )
    return ask(page, "unsetFormulas") + [found for pattern in patterns for found in re.findall(pattern, text)]


def loose_marks(page):
    """List formulas with a mark, such as a full stop, on another line."""
    return ask(page, "looseMarks")


def overflow(page):
    """List what sticks out of the screen on the right."""
    return ask(page, "overflow")


def wide_tables(page):
    """List tables of few columns of which not all is in sight."""
    return ask(page, "wideTables")


def unreachable_scrollers(page):
    """List boxes that scroll sideways but that a keyboard cannot reach."""
    return ask(page, "unreachableScrollers")


def headings(page):
    """List headings out of order: a page has one of level 1, first, and leaves out no level on the way down."""
    found = ask(page, "headings")
    levels = [level for level, _ in found]
    faults = [] if levels.count(1) == 1 and levels[0] == 1 else [f"the page begins with levels {levels[:5]}"]
    for before, (level, text) in zip(levels, found[1:], strict=False):
        if level > before + 1:
            faults.append(f"level {before} is followed by level {level}: {text}")
    return faults


def images(page):
    """List images that did not load or do not say what they show."""
    faults = []
    for image in ask(page, "images"):
        alt, least = image["alt"], 30 if image["content"] else 1  # the theme's own pictures need only a name
        if len(alt) < least or re.search(r"\.(png|jpe?g|svg|gif|webp)$|^[0-9a-f]{16,}|[/\\]", alt):
            faults.append(f"{image['source']} does not say what it shows: {alt!r}")
        if not image["loaded"]:
            faults.append(f"{image['source']} did not load")
    return faults


def motion(page):
    """List what moves for longer than a blink."""
    return ask(page, "motion", LONGEST_MOTION)


def contrast(page, within="body"):
    """List letters that stand out too little from their ground, each kind once."""
    return ask(page, "contrast", {"least": LEAST_CONTRAST, "within": within})


def axe(page, without=(), context=None):
    """Return what axe finds serious or critical on a page or in a part of it, as [rule, element, how many]."""
    from axe_playwright_python.sync_playwright import Axe

    # With "preload", axe itself asks for style sheets, at addresses where they are not.
    options = {"preload": False, "resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in without}}
    axe = Axe() if page.evaluate("window.axe === undefined") else Axe(axe_script="0")  # a page reads its script once
    violations = axe.run(page, context=context, options=options).response["violations"]
    return [
        (found["id"], found["nodes"][0]["html"], len(found["nodes"]))
        for found in violations
        if found["impact"] in ("serious", "critical")
    ]


def structure(page, context=None):
    """List what axe calls serious or critical; formulas and code on the page become plain text.

    Contrast and boxes that scroll have functions of their own here, which look at every letter in little time.
    """
    ask(page, "thinOut")
    found = axe(page, without=("color-contrast", "scrollable-region-focusable"), context=context)
    return [f"{rule} ({number}): {element[:200]}" for rule, element, number in found]


def unseen_focus(page):
    """List links of the text that do not show the focus: quicker than a walk with Tab, so every page can be asked."""
    return ask(page, "linksWithoutRing")


def keyboard(page):
    """Walk through the page with Tab, and list what that does not reach, or where one cannot see where one is.

    How many stops there are shows only on the way, since some come and go with the scrolling: it ends where it began.
    """
    begins_inside = page.evaluate("document.activeElement !== document.body")  # as in the field of the search page
    ask(page, "followFocus")
    most = 2 * len(ask(page, "neverReached")) + 50
    for pressed in range(most):
        if pressed % 20 == 0 and page.evaluate("window.cameAround"):
            break
        page.keyboard.press("Tab")
    stops = ask(page, "stopsSeen")
    faults = [f"the focus is not seen: {stop['name']}" for stop in stops if not (stop["seen"] and stop["placed"])]
    if not page.evaluate("window.cameAround"):
        faults.append(f"Tab does not come back to the first stop: after {most} times it is at {stops[-1:]}")
    if not any(stop["skips"] for stop in (stops if begins_inside else stops[:1])):
        faults.append(f"the first stop is not the link that skips to the text: {stops[:1]}")
    if not any(stop["navigation"] for stop in stops):
        faults.append("Tab does not reach the navigation")
    return faults + ask(page, "neverReached")
