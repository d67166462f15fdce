"""An HTML page on its way to unstructured: nothing that a reader sees is lost, and what surrounds the text is marked as boilerplate.

What belongs here: the tree of one page. What does not: decoding and unstructured itself (`unstructured_elements`), and dropping what is
marked (`cleaning`).
"""

from __future__ import annotations

import re
from typing import Any

OPEN, CLOSE = "\ue000", "\ue001"
"""Private-use marks around boilerplate; doubled, each is a paragraph of its own, which unstructured passes through."""

_BOILERPLATE_TAGS = frozenset({"nav", "footer", "aside", "header"})
_BOILERPLATE_ROLES = frozenset({"navigation", "banner", "contentinfo", "complementary", "search"})
# Whole class names or ids only: a "menu-recipe" is content.
_BOILERPLATE_NAMES = frozenset({
    "nav", "navbar", "navigation", "menu", "main-menu", "sidebar", "side-bar", "breadcrumb", "breadcrumbs", "footer",
    "site-footer", "page-footer", "site-header", "topbar", "top-bar", "cookie-banner", "cookie-notice", "cookie-consent",
    "cookie-bar", "skip-link", "share-buttons", "social-share", "related-links",
})  # fmt: skip
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
# unstructured leaves these out with all they hold; a reader sees what is in them.
_SHOWN = {"details": "div", "summary": "p", "figure": "div", "figcaption": "p", "form": "div", "nav": "div", "dialog": "div", "main": "div"}


def prepare_html(text: str) -> str:
    """An HTML page in which unstructured loses nothing that a reader sees: boilerplate stands between private-use marks.

    Boilerplate is nav, aside, header and footer (those of an article are its own), the ARIA landmarks of the same meaning, hidden
    content, and what stands outside a `main`. A header that holds the page's only h1 is content.
    """
    from lxml import etree
    from lxml import html as lxml_html

    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(text.encode("utf-8", errors="replace"), parser=parser)
    except etree.ParserError:
        return ""
    body = root.find("body")
    if body is None:
        return ""
    etree.strip_elements(root, "script", "style", "noscript", "template", with_tail=False)
    mains = [element for element in body.iter("main") if not _hidden(element)]
    titles = body.findall(".//h1")
    marked: list[Any] = []
    length = _length(body)

    def visit(element: Any) -> None:
        for child in element:
            only_title = len(titles) == 1 and any(title is titles[0] for title in child.iter("h1"))
            outside = bool(mains) and not any(
                main is child or child in main.iterancestors() or main in child.iterancestors() for main in mains
            )
            if (outside or _is_boilerplate(child, length)) and not (only_title and not _hidden(child) and child.tag != "nav"):
                marked.append(child)
            else:
                visit(child)

    visit(body)
    for element in marked:
        _between_marks(element)
    for element in body.iter(*_SHOWN):
        element.tag = _SHOWN[element.tag]
    return str(lxml_html.tostring(root, encoding="unicode"))


def _hidden(element: Any) -> bool:
    return element.get("hidden") is not None or element.get("aria-hidden") == "true" or bool(_HIDDEN_STYLE.search(element.get("style", "")))


def _is_boilerplate(element: Any, body_length: int) -> bool:
    if _hidden(element) or (element.get("role") or "").strip().lower() in _BOILERPLATE_ROLES:
        return True
    names = {*(element.get("class") or "").lower().split(), (element.get("id") or "").lower()}
    if names & _BOILERPLATE_NAMES and _length(element) < body_length / 2:
        return True
    if element.tag not in _BOILERPLATE_TAGS and not (_is_widget(element) and _length(element) < body_length / 2):
        return False
    inside = [ancestor.tag for ancestor in element.iterancestors()]
    if element.tag in ("header", "footer"):
        return not any(tag in ("article", "main", "section", "blockquote") for tag in inside)
    if element.tag == "aside" and any(tag in ("article", "main") for tag in inside):
        # Beside an article stand notes and warnings, which are content, and lists of links, which are not.
        return sum(_length(link) for link in element.iter("a")) > _length(element) / 2
    return element.tag in _BOILERPLATE_TAGS or "article" not in inside


def _is_widget(element: Any) -> bool:
    """Whether a block is a control with a few words: a sign-up for a newsletter, a question whether the page helped."""
    if element.tag not in ("div", "section", "form", "fieldset") or _length(element) > 200:
        return False
    return next(element.iter("button", "input", "select", "textarea"), None) is not None


def _length(element: Any) -> int:
    return len("".join(element.itertext()).strip())


def _between_marks(element: Any) -> None:
    """Put a boilerplate element between two marks, as a block even if it was inline."""
    from lxml import etree

    tail, element.tail = element.tail, None
    for mark, add in ((OPEN, element.addprevious), (CLOSE, element.addnext)):
        paragraph = etree.Element("p")
        # Two characters: unstructured drops texts of one.
        paragraph.text = mark * 2
        add(paragraph)
    element.getnext().tail = tail
