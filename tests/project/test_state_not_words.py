"""What is wrong, and what was claimed, is data: no code finds it out by searching the words in which it is told."""

import re

import pytest

from tools.book import ROOT

SEARCHES = re.compile(
    r"""["']\s+(?:not\s+)?in\s+\w+(?:\.(?:words|sentence|predicted)\b|\[["']words["']\])"""  # "raised" in found.words
    r"""|\bin\s+\w+(?:\.\w+)*\.(?:words|sentence|predicted)\b(?!\()"""  # slip.words in found.words
    r"""|\.(?:words|sentence|predicted)\.(?:startswith|endswith|find|count|index)\("""
    r"""|re\.(?:search|match|fullmatch|findall)\([^)]*\.(?:words|sentence|predicted)\b"""
)


def searches(code):
    return [line.strip() for line in code.splitlines() if SEARCHES.search(line)]


def test_no_code_searches_a_sentence():
    folders = ("attention_tutorial", "book/_ext", "classroom/attention_classroom", "tools")
    code = {path: path.read_text(encoding="utf-8") for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")}
    assert not {str(path): searched for path, text in code.items() if (searched := searches(text))}


@pytest.mark.parametrize(
    "habit",
    [
        'if "was still running" in found.words:',
        'any("raised NameError" in result["words"] for result in results)',
        "read = [slip for slip in slips if slip.words in found.words]",
        'return "to within 1e-" in self.sentence',
        'return self.predicted.startswith(("at least", "at most"))',
        're.fullmatch("[0-9]+", claim.predicted)',
    ],
)
def test_the_habit_is_seen(habit):
    assert searches(habit) == [habit]
