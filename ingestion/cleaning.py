"""From parsed elements to a document's canonical text with exact spans.

What a parser read is taken as it is: nothing here opens a file. How good the text is says `cleaning_quality`; what counts as the same
document is `dedup`'s affair.
"""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from math import ceil
from typing import Any, Final, Literal

from ingestion import characters, folding, language, pii, titles

SEPARATOR: Final = "\n\n"
SHORT_TEXT: Final = 100
"""Characters under which a document is flagged as short."""

FLAGS: Final = ("pii", "invisible_characters", "mixed_script", "nfkc_drift", "short_text")
PREDICATES: Final = (
    "tenant",
    "groups",
    "jurisdiction",
    "publication_state",
    "locale",
    "version",
    "version_of",
    "published",
    "fields",
)
# Lines of these mean something: an address, a formula, code, or a layout the parser could not name.
_KEEPS_LINES: Final = frozenset({"CodeSnippet", "Address", "Formula", "UncategorizedText", "Table", "FormKeysValues"})
_CODE: Final = "CodeSnippet"
# Furniture of an HTML page as a parser names it.
_HTML_CATEGORIES: Final = frozenset({"Boilerplate", "Header", "Footer"})


@dataclass(frozen=True)
class CleaningPolicy:
    """What cleaning does. Fields as in the settings: Unicode form, element categories left out, the share of pages from
    which a repeated line is a running head, whether HTML boilerplate goes, and what happens to personal data."""

    unicode_form: Literal["NFC", "NFKC"] = "NFC"
    drop_categories: tuple[str, ...] = ("Header", "Footer", "PageNumber")
    repeated_lines: float = 0.6
    html_boilerplate: bool = True
    pii: Literal["flag", "mask", "drop_document"] = "flag"


@dataclass
class _Element:
    """An element on its way to the canonical text; `rule` names what removed it."""

    order: int
    page: int | None
    category: str
    heading_path: list[str]
    text: str
    html: str | None
    rule: str | None = None


# --------------------------------------------------------------------------------------------------------- characters
# Invisible characters, without the two that choose between a sign's text and picture form, and without the joiners,
# which are letters' business in the scripts from Hebrew onwards and in pictures joined of several.
_JOINERS: Final = "\u200c\u200d"
_INVISIBLE: Final = re.compile(f"(?![\ufe0e\ufe0f{_JOINERS}])[{folding.INVISIBLE}]|(?:^|(?<=[\\0-\u058f]))[{_JOINERS}]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffc\ufdd0-\ufdef\ufffe\uffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LINE_ENDS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SOFT_BREAK: Final = re.compile("\u00ad[^\\S\n]*\n[^\\S\n]*")
_BROKEN_WORD: Final = re.compile(r"([^\W_]+)[-\u2010][^\S\n]*\n[^\S\n]*([^\W_]+)")
_CONJUNCTIONS: Final = frozenset({"and", "or", "to", "en", "of", "und", "oder", "bzw", "sowie", "bis"})
_HYPHENATED: Final = re.compile(r"[^\W_]+-[^\W_]+")


def _without_invisible(text: str) -> tuple[str, int]:
    """`text` with one kind of line end and without characters that show nothing, and how many of those there were."""
    text = _LINE_ENDS.sub("\n", text)
    if text.isascii():
        return _CONTROL.subn("", text)
    text = _SURROGATE.sub("\ufffd", text)
    # A soft hyphen that breaks a line is doing its work: the word is joined and nothing is counted.
    text = _SOFT_BREAK.sub("", text)
    text, invisible = _INVISIBLE.subn("", text)
    text, control = _CONTROL.subn("", text)
    return text, invisible + control


def _join_broken_words(text: str, hyphenated: frozenset[str]) -> str:
    """`text` with words joined that a line end broke.

    Cautious: a hyphen stays where the document writes the word with one elsewhere, before a capital or a digit, and behind
    a digit; "voor- en nadelen" is left alone.
    """

    def join(match: re.Match[str]) -> str:
        left, right = match[1], match[2]
        if right.lower() in _CONJUNCTIONS:
            return match[0]
        word = left[-1].isalpha() and right[0].islower()
        return left + right if word and f"{left}-{right}".lower() not in hyphenated else f"{left}-{right}"

    return _BROKEN_WORD.sub(join, text)


def _tidy_space(text: str, *, keep_lines: bool, code: bool = False) -> str:
    if code:
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    lines = [" ".join(line.split()) for line in text.split("\n")]
    if not keep_lines:
        return " ".join(line for line in lines if line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip("\n"))


def _clean_line(text: str, form: Literal["NFC", "NFKC"]) -> str:
    return _tidy_space(unicodedata.normalize(form, _without_invisible(text)[0]), keep_lines=False)


# --------------------------------------------------------------------------------------------------------------- tables
class _Rows(HTMLParser):
    """Collects the cells of every table row, nested markup flattened."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._end_cell()
            self.rows.append([])
        elif tag in ("td", "th"):
            self._end_cell()
            self._cell = []
        elif self._cell is not None and tag in ("br", "p", "div", "li"):
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._end_cell()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def close(self) -> None:
        super().close()
        self._end_cell()

    def _end_cell(self) -> None:
        if self._cell is not None:
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None


def rows_text(table_html: str) -> str:
    """A table's rows as lines of `cell | cell`, so that a number stays next to its row's name. Spanned cells stand once."""
    rows = _Rows()
    rows.feed(table_html)
    rows.close()
    return "\n".join(" | ".join(row) for row in rows.rows if any(row))


# ------------------------------------------------------------------------------------------------------- running heads
_MARGIN_LINES: Final = 3
_FEWEST_PAGES: Final = 3
_LONGEST_HEAD: Final = 100
_PAGE_OF: Final = re.compile(r"(?<![\w.,])(\d{1,4})( ?(?:of|van|von|/) ?)\d{1,4}\b")
_EDGE_NUMBER: Final = re.compile(r"^\W{0,3}(\d{1,4})(?![\w.,])|(?<![\w.,])(\d{1,4})\W{0,3}$")


def _head_key(line: str, page: int, category: str) -> str:
    """What makes two lines the same running head. A number that counts along with the pages is its distance to the page."""
    key = " ".join(line.split()).casefold()
    if category in ("Title", "ListItem"):
        return key  # "Step 1", "Step 2" at the top of each page are content
    if _PAGE_OF.search(key):
        return _PAGE_OF.sub(lambda m: f"<{int(m[1]) - page:+d}>{m[2]}<>", key)
    return _EDGE_NUMBER.sub(lambda m: f"<{int(m[1] or m[2]) - page:+d}>", key)


def _running_heads(elements: Sequence[_Element], share: float) -> dict[int, set[int]]:
    """Line numbers, by position of their element, of short lines that stand at the top or bottom of enough pages.

    Enough is `share` of the pages and at least three; only the outer three lines of a page are looked at, tables never.
    """
    pages: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for position, element in enumerate(elements):
        if element.page is not None and element.rule is None:
            for number, line in enumerate(element.text.split("\n")):
                if line.strip():
                    pages[element.page].append((position, number, line))
    needed = max(_FEWEST_PAGES, ceil(share * len(pages)))
    if len(pages) < needed:
        return {}
    places: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for page, lines in pages.items():
        # A short page's top and bottom lines overlap; each counts once.
        for position, number, line in dict.fromkeys(lines[:_MARGIN_LINES] + lines[-_MARGIN_LINES:]):
            category = elements[position].category
            if len(line) <= _LONGEST_HEAD and category != "Table":
                places[_head_key(line, page, category)].append((page, position, number))
    heads: dict[int, set[int]] = defaultdict(set)
    for found in places.values():
        if len({page for page, _, _ in found}) >= needed:
            for _, position, number in found:
                heads[position].add(number)
    return heads


def _drop_running_heads(elements: list[_Element], share: float) -> list[_Element]:
    heads = _running_heads(elements, share)
    kept: list[_Element] = []
    for position, element in enumerate(elements):
        if position not in heads:
            kept.append(element)
            continue
        lines = element.text.split("\n")
        removed = [line for number, line in enumerate(lines) if number in heads[position]]
        kept.append(replace(element, text="\n".join(removed), rule="repeated_line", html=None))
        rest = [line for number, line in enumerate(lines) if number not in heads[position]]
        if any(line.strip() for line in rest):
            kept.append(replace(element, text="\n".join(rest)))
    return kept


# ---------------------------------------------------------------------------------------------------- HTML boilerplate
_LONGEST_LINK: Final = 40
_MENU: Final = frozenset(
    re.split(
        r"\s*\|\s*",
        """
        home | menu | search | login | log in | sign in | sign up | register | my account | account | cart | basket | products
        | services | solutions | support | help | contact | contact us | about | about us | blog | news | careers | jobs
        | sitemap | privacy | privacy policy | terms | privacy statement | terms of use | terms and conditions | cookie policy
        | cookies | cookie settings | imprint | legal | disclaimer | accessibility | newsletter | facebook | twitter | x
        | linkedin | instagram | youtube | share | print | back to top | faq | downloads | partners | press | zoeken
        | inloggen | aanmelden | registreren | mijn account | winkelwagen | producten | diensten | oplossingen | ondersteuning
        | klantenservice | over ons | nieuws | vacatures | werken bij | privacyverklaring | privacybeleid
        | algemene voorwaarden | cookiebeleid | nieuwsbrief | delen | naar boven | veelgestelde vragen | toegankelijkheid
        | contactgegevens | startseite | suche | suchen | anmelden | abmelden | registrieren | mein konto | warenkorb
        | produkte | dienstleistungen | lösungen | hilfe | kontakt | über uns | aktuelles | karriere | datenschutz
        | datenschutzerklärung | impressum | agb | nutzungsbedingungen | barrierefreiheit | teilen | drucken | nach oben
        """.strip(),
    )
)
_NOTICE: Final = re.compile(
    r"^(?:©|\(c\) ?(?:19|20)\d\d|copyright ?(?:©|\(c\)|(?:19|20)\d\d))"
    r"|\ball rights reserved\b|\balle rechten voorbehouden\b|\balle rechte vorbehalten\b"
    r"|^(?:accept|reject|allow) (?:all )?(?:cookies)?$|^(?:alle )?cookies (?:accepteren|weigeren|akzeptieren|ablehnen)$"
    r"|^(?:skip to (?:main )?content|ga naar (?:de )?(?:hoofd)?inhoud|(?:direkt )?zum (?:haupt)?inhalt(?: springen)?)$"
    r"|^(?:subscribe to our newsletter|schrijf je in voor (?:de|onze) nieuwsbrief|newsletter abonnieren)\b",
    re.IGNORECASE,
)
_COOKIE_NOTICE: Final = re.compile(
    r"\b(?:this|our|we|deze|wij|onze|diese|wir|unsere)\b.{0,40}\b(?:uses?|gebruik\w*|verwende\w*|nutz\w+)\b.{0,20}\bcookies\b",
    re.IGNORECASE,
)
_ABOUT_COOKIES: Final = re.compile(r"cookie|privacy|datenschutz", re.IGNORECASE)
_LONGEST_NOTICE: Final = 240
_TRAIL: Final = re.compile("\\s*(?:[|\u00b7\u2022\u203a\u00bb/]|>(?!\\S))\\s*")


def _is_menu(text: str) -> tuple[int, int]:
    """How many parts of a line of links are entries that menus have, and how many parts there are; (0, 0) for other text.

    What holds a digit or ends like a sentence is other text: dates, prices and prose stand between links too.
    """
    parts = [part for part in _TRAIL.split(" ".join(text.split())) if part]
    if not parts or any(len(p) > _LONGEST_LINK or p.endswith((".", ":", ";", "?", "!")) or re.search(r"\d", p) for p in parts):
        return 0, 0
    return sum(part.casefold() in _MENU for part in parts), len(parts)


def _mark_html_boilerplate(elements: Sequence[_Element]) -> None:
    """Set the rule of navigation, banners and footers of an HTML page.

    Three signs, chosen so that content is rarely touched: the parser's own category; a run of at least two links of which
    at least half are entries that menus have; a short cookie, copyright or skip notice. On a page with a heading about
    cookies or privacy, what it says of cookies is its content.
    """
    about_cookies = any(e.category == "Title" and _ABOUT_COOKIES.search(e.text) for e in elements)
    run: list[tuple[_Element, tuple[int, int]]] = []

    def end_run() -> None:
        # A byline above a menu or below it is no entry: the run reaches from its first known entry to its last.
        while run and not run[0][1][0]:
            run.pop(0)
        while run and not run[-1][1][0]:
            run.pop()
        known, parts = (sum(menu[i] for _, menu in run) for i in (0, 1))
        if parts >= 2 and 2 * known >= parts:
            for element, _ in run:
                element.rule = "html_navigation"
        run.clear()

    for element in elements:
        if element.rule is not None:
            continue
        line = " ".join(element.text.split())
        if element.category in _HTML_CATEGORIES:
            element.rule = "html_category"
            end_run()
        elif (
            element.category != "Table"
            and len(line) <= _LONGEST_NOTICE
            and (_NOTICE.search(line) or (not about_cookies and "cookies" in line.lower() and _COOKIE_NOTICE.search(line)))
        ):
            element.rule = "html_notice"
            end_run()
        else:
            menu = _is_menu(line) if element.category not in ("Table", "Title") else (0, 0)
            if menu[1]:
                run.append((element, menu))
            else:
                end_run()
    end_run()


# ----------------------------------------------------------------------------------------------------- personal data
_TAG: Final = re.compile(r"(<[^>]*>)")


def _mask_html(table_html: str) -> str | None:
    """Table HTML with its texts masked; None where personal data runs across markup, so that none is left behind."""
    pieces = _TAG.split(table_html)
    masked = "".join(p if p.startswith("<") else html.escape(pii.mask(html.unescape(p)), quote=False) for p in pieces)
    return None if pii.find(rows_text(masked)) else masked


def _mask(elements: Sequence[_Element]) -> list[_Element]:
    return [
        replace(
            element,
            text=pii.mask(element.text),
            html=_mask_html(element.html) if element.html is not None else None,
            heading_path=[pii.mask(heading) for heading in element.heading_path],
        )
        for element in elements
    ]


# ------------------------------------------------------------------------------------------------------------ documents
def _joined(elements: Sequence[_Element]) -> tuple[str, list[dict[str, Any]]]:
    """The canonical text and the elements with their spans in it."""
    rows, position = [], 0
    for element in elements:
        end = position + len(element.text)
        rows.append(
            {
                "order": element.order,
                "start": position,
                "end": end,
                "category": element.category,
                "page": element.page,
                "heading_path": element.heading_path,
                "html": element.html,
            }
        )
        position = end + len(SEPARATOR)
    return SEPARATOR.join(element.text for element in elements), rows


def _row(source: Mapping[str, Any], parser: str | None) -> dict[str, Any]:
    return {
        "doc_id": source["doc_id"],
        "doc_class": source["doc_class"],
        "parser": parser,
        "title": source["title"],
        "language": language.UNDETERMINED,
        "text": "",
        "text_sha256": hashlib.sha256(b"").hexdigest(),
        "elements": [],
        **{name: source[name] for name in PREDICATES},
        "language_score": None,
        "flags": [],
        "pii": [],
        "removed_characters": 0,
        "removed": [],
        "source_sha256": source["sha256"],
        "status": "ok",
        "reason": None,
        "detail": None,
    }


@dataclass
class _Findings:
    """What the checks saw on the way."""

    invisible: int = 0
    mixed_script: bool = False
    drift: bool = False
    hyphenated: frozenset[str] = field(default_factory=frozenset)


def _cleaned(element: _Element, policy: CleaningPolicy, findings: _Findings) -> _Element:
    text = element.text
    code = element.category == _CODE
    if not code and "\n" in text:
        text = _join_broken_words(text, findings.hyphenated)
    if not text.isascii():
        canonical, compatible = unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text)
        # White space is tidied in any case, so a no-break space is no drift.
        findings.drift |= compatible.split() != canonical.split()
        findings.mixed_script |= any(found.kind == "mixed_script" for found in characters.find(canonical))
        text = compatible if policy.unicode_form == "NFKC" else canonical
    text = _tidy_space(text, keep_lines=element.category in _KEEPS_LINES, code=code)
    path = [line for heading in element.heading_path if (line := _clean_line(heading, policy.unicode_form))]
    return replace(element, text=text, heading_path=path)


def _read_elements(elements: Sequence[Mapping[str, Any]], findings: _Findings) -> list[_Element]:
    read = []
    for row in elements:
        category = row["category"] or "UncategorizedText"
        table_html = row["html"] or None
        text = (rows_text(table_html) if category == "Table" and table_html else "") or row["text"] or ""
        text, invisible = _without_invisible(text)
        findings.invisible += invisible
        read.append(_Element(row["order"], row["page"], category, list(row["heading_path"] or ()), text, table_html))
    return read


def clean_document(
    source: Mapping[str, Any], elements: Sequence[Mapping[str, Any]], parser: str | None, policy: CleaningPolicy
) -> dict[str, Any]:
    """The `documents` row of one source: canonical text, element spans into it, language, flags, what was removed and why.

    `source` is a row of `source_documents`, `elements` the rows of `parsed_documents` that the chosen parser made of it.
    The text is the kept elements, cleaned, joined by a blank line; `text[e.start:e.end]` is element e. Tables become rows
    of `cell | cell`. Rules that remove an element: `category` (settings), `repeated_line`, `html_category`,
    `html_navigation`, `html_notice`.

    Under the policy `mask` every text of the row is masked before spans are computed; `pii` always refers to the text
    before masking. Under `drop_document` a document with personal data keeps neither text nor elements and is
    `not_applicable`, reason `personal_data`. A document that did not parse is `failed` with the parser's own reason (else
    `parse_failed`; `unsupported_media_type` without a parser), one that has no text left is `failed`, reason `no_text`.
    """
    row = _row(source, parser)
    readable = sorted((e for e in elements if e["status"] == "ok"), key=lambda e: e["order"])
    if not readable:
        unread = {"reason": "unsupported_media_type", "detail": f"class {source['doc_class']} has no line in parser_of: choose its parser"}
        failed = elements[0] if elements else {"reason": None, "detail": "the chosen parser left no row"} if parser else unread
        return row | {"status": "failed", "reason": failed["reason"] or "parse_failed", "detail": failed["detail"]}

    findings = _Findings()
    read = _read_elements(readable, findings)
    findings.hyphenated = frozenset(w.lower() for e in read if e.category != _CODE for w in _HYPHENATED.findall(e.text))
    for element in read:
        if element.category in policy.drop_categories:
            element.rule = "category"
    if policy.html_boilerplate and source["media_type"] in ("text/html", "application/xhtml+xml"):
        _mark_html_boilerplate(read)
    read = _drop_running_heads(read, policy.repeated_lines)
    cleaned = [element for e in read if (element := _cleaned(e, policy, findings)).text]
    kept = [element for element in cleaned if element.rule is None]
    removed = [element for element in cleaned if element.rule is not None]

    text, spans = _joined(kept)
    found = pii.find(text)
    seen = {
        "pii": bool(found),
        "invisible_characters": findings.invisible > 0,
        "mixed_script": findings.mixed_script,
        "nfkc_drift": findings.drift,
        "short_text": len(text) < SHORT_TEXT,
    }
    row |= {"flags": [flag for flag in FLAGS if seen[flag]], "pii": found}
    if found and policy.pii == "drop_document":
        types = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(s["type"] for s in found).items()))
        return row | {"title": None, "status": "not_applicable", "reason": "personal_data", "detail": types}
    declared = _clean_line(source["title"], policy.unicode_form) if source["title"] else None
    if policy.pii == "mask":
        kept, removed = _mask(kept), _mask(removed)
        declared = pii.mask(declared) if declared else None
        text, spans = _joined(kept)
    row["removed_characters"] = sum(len(e.text) for e in removed)
    row["removed"] = [{"order": e.order, "category": e.category, "rule": e.rule, "text": e.text} for e in removed]
    row["title"] = titles.find_title(declared, [{"category": e.category, "text": e.text} for e in kept])
    if not text:
        return row | {"status": "failed", "reason": "no_text", "detail": f"{len(removed)} elements removed, none left"}
    identified, score = language.identify(text)
    return row | {
        "language": identified,
        "language_score": score or None,
        "text": text,
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "elements": spans,
    }
