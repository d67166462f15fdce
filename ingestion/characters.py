"""Characters that deceive: invisible ones, ones that a normal form replaces, and letters of one script among those of another.

What belongs here: finding them in a text, each with its place. What does not: taking them out or normalising (`cleaning`), and counting
them over a corpus (`cleaning_quality`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from regex import Pattern

KINDS: Final = ("default_ignorable", "nfc_drift", "nfkc_drift", "mixed_script")


class Finding(NamedTuple):
    """One place: its kind, where it begins in the text (in characters), and the characters themselves."""

    kind: str
    position: int
    text: str

    @property
    def code_points(self) -> str:
        """The characters by number and name: `U+200B ZERO WIDTH SPACE`. Of a word of several scripts only those outside ASCII."""
        shown = [character for character in self.text if not (self.kind == "mixed_script" and character.isascii())]
        return ", ".join(f"U+{ord(character):04X} {unicodedata.name(character, '(no name)')}" for character in shown)


@cache
def _compiled(pattern: str) -> Pattern[str]:
    import regex

    return regex.compile(pattern)


_IGNORABLE: Final = r"\p{Default_Ignorable_Code_Point}"
# A character with the marks, or the parts of a Korean syllable, that composition may join to it.
_CLUSTER: Final = r"[^\x00-\x7f][\p{M}\u1160-\u11ff]*|[\x00-\x7f][\p{M}]+"
_WORD: Final = r"[\p{L}\p{M}\p{Nd}]*[^\x00-\x7f\P{L}][\p{L}\p{M}\p{Nd}]*"
# Scripts in common use today: UAX #31, table 5, with Cherokee and Coptic, whose capitals look Latin.
_SCRIPTS: Final = (
    "Arab", "Armn", "Beng", "Bopo", "Cher", "Copt", "Cyrl", "Deva", "Ethi", "Geor", "Grek", "Gujr", "Guru", "Hang", "Hani", "Hebr", "Hira",
    "Kana", "Khmr", "Knda", "Laoo", "Latn", "Mlym", "Mymr", "Orya", "Sinh", "Taml", "Telu", "Thaa", "Thai", "Tibt",
)  # fmt: skip
# UTS #39, 5.1: writing systems that use several scripts, and 5.2: those that Latin may stand among.
_SYSTEMS: Final = {"Hani": {"Hanb", "Jpan", "Kore"}, "Bopo": {"Hanb"}, "Hira": {"Jpan"}, "Kana": {"Jpan"}, "Hang": {"Kore"}}
_WITH_LATIN: Final = frozenset({"Hanb", "Jpan", "Kore"})
# Greek letters that pass for Latin ones; the others stand for themselves in formulas and units (ΔT, kΩ, µm).
_GREEK_LOOKALIKES: Final = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο")


def find(text: str) -> list[Finding]:
    """Every place of `text` with a character of one of KINDS, by position.

    - `default_ignorable`: one code point with the Unicode property Default_Ignorable_Code_Point.
    - `nfc_drift`, `nfkc_drift`: a character, with its marks, that NFC replaces, or that NFKC replaces by something other than NFC does;
      kinds of blanks are no drift.
    - `mixed_script`: a word with no script in common to all its letters (UTS #39, 5.1, by Script_Extensions), Latin beside a Chinese,
      Japanese or Korean writing system apart (5.2), and Greek letters that look like no Latin one.
    """
    if text.isascii():
        return []
    found = [Finding("default_ignorable", match.start(), match[0]) for match in _compiled(_IGNORABLE).finditer(text)]
    found += _drift(text)
    found += [Finding("mixed_script", match.start(), match[0]) for match in _compiled(_WORD).finditer(text) if is_mixed(match[0])]
    return sorted(found, key=lambda finding: (finding.position, finding.kind))


def _drift(text: str) -> Iterator[Finding]:
    for match in _compiled(_CLUSTER).finditer(text):
        canonical, compatible = unicodedata.normalize("NFC", match[0]), unicodedata.normalize("NFKC", match[0])
        if canonical != match[0]:
            yield Finding("nfc_drift", match.start(), match[0])
        if compatible != canonical and compatible.strip() != canonical.strip():
            yield Finding("nfkc_drift", match.start(), match[0])


def is_mixed(word: str) -> bool:
    """Whether a word's letters have no script in common, as `find` describes."""
    sets = [scripts for character in set(word) if (scripts := _scripts(character))]
    if not sets or frozenset.intersection(*sets):
        return False
    foreign = [scripts for scripts in sets if "Latn" not in scripts]
    if len(foreign) < len(sets) and frozenset.intersection(*foreign) & _WITH_LATIN:
        return False
    if all("Grek" in scripts for scripts in foreign):
        return any(character in _GREEK_LOOKALIKES for character in word)
    return True


@cache
def _scripts(character: str) -> frozenset[str]:
    """Scripts and writing systems of a character; empty for one that every script shares."""
    if character.isascii():
        return frozenset({"Latn"}) if character.isalpha() else frozenset()
    if _compiled(r"[\p{scx=Zyyy}\p{scx=Zinh}]").match(character):
        return frozenset()
    own = {script for script in _SCRIPTS if _compiled(rf"\p{{scx={script}}}").match(character)} or {"other"}
    return frozenset(own.union(*(_SYSTEMS.get(script, set()) for script in own)))
