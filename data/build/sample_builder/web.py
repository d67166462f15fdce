"""Web pages around the authored text: navigation, cookie banner, related links, footer.

What belongs here: three page skins (support portal, intranet, public site) in three languages. What does not: the authored
text itself. The words of the skins are what boilerplate removal has to leave out.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from sample_builder.markup import Block, Rendition, inline_html, plain

WORDS = {
    "en": {
        "nav": ["Home", "Products", "Support articles", "Downloads", "Find an installer", "Contact"],
        "intranet": ["Start", "People & pay", "IT desk", "Safety", "Canteen menu", "My team", "Log out"],
        "cookie": "We use cookies to measure how this site is used. Choose which cookies you allow.",
        "accept": "Accept all",
        "reject": "Only necessary cookies",
        "search": "Search the knowledge base",
        "related": "Related articles",
        "helpful": "Was this article helpful?",
        "yes": "Yes",
        "no": "No",
        "newsletter": "Sign up for our newsletter and hear about new models first.",
        "footer": ["Brinkhal Warmtepompen B.V., Deventer", "Privacy statement", "Terms of use", "Cookie settings", "Jobs"],
        "rights": "© Brinkhal. All rights reserved.",
        "skip": "Skip to main content",
        "crumb": "You are here:",
        "share": "Share this page",
        "print": "Print",
    },
    "nl": {
        "nav": ["Home", "Producten", "Hulp en uitleg", "Downloads", "Zoek een installateur", "Contact"],
        "intranet": [
            "Start",
            "Personeel & salaris",
            "IT-balie",
            "Veiligheid",
            "Menu bedrijfsrestaurant",
            "Mijn team",
            "Uitloggen",
        ],
        "cookie": "Wij gebruiken cookies om te meten hoe deze site wordt gebruikt. Kies welke cookies u toestaat.",
        "accept": "Alles accepteren",
        "reject": "Alleen noodzakelijke cookies",
        "search": "Zoek in de kennisbank",
        "related": "Gerelateerde artikelen",
        "helpful": "Was dit artikel nuttig?",
        "yes": "Ja",
        "no": "Nee",
        "newsletter": "Meld u aan voor onze nieuwsbrief en hoor als eerste over nieuwe modellen.",
        "footer": [
            "Brinkhal Warmtepompen B.V., Deventer",
            "Privacyverklaring",
            "Gebruiksvoorwaarden",
            "Cookie-instellingen",
            "Vacatures",
        ],
        "rights": "© Brinkhal. Alle rechten voorbehouden.",
        "skip": "Ga naar de inhoud",
        "crumb": "U bent hier:",
        "share": "Deel deze pagina",
        "print": "Afdrukken",
    },
    "de": {
        "nav": ["Startseite", "Produkte", "Hilfe-Artikel", "Downloads", "Fachbetrieb finden", "Kontakt"],
        "intranet": ["Start", "Personal & Gehalt", "IT-Service", "Arbeitsschutz", "Speiseplan", "Mein Team", "Abmelden"],
        "cookie": "Wir verwenden Cookies, um die Nutzung dieser Website zu messen. Wählen Sie, welche Cookies Sie erlauben.",
        "accept": "Alle akzeptieren",
        "reject": "Nur notwendige Cookies",
        "search": "Wissensdatenbank durchsuchen",
        "related": "Verwandte Artikel",
        "helpful": "War dieser Artikel hilfreich?",
        "yes": "Ja",
        "no": "Nein",
        "newsletter": "Abonnieren Sie unseren Newsletter und erfahren Sie als Erste von neuen Modellen.",
        "footer": [
            "Brinkhal Wärmepumpen GmbH, Münster",
            "Datenschutzerklärung",
            "Nutzungsbedingungen",
            "Cookie-Einstellungen",
            "Karriere",
        ],
        "rights": "© Brinkhal. Alle Rechte vorbehalten.",
        "skip": "Zum Inhalt springen",
        "crumb": "Sie sind hier:",
        "share": "Seite teilen",
        "print": "Drucken",
    },
}


def boilerplate(rendition: Rendition) -> list[str]:
    """Texts of a page's skin that do not belong to its content, for the boilerplate labels."""
    words = WORDS[rendition.language]
    out = [words["cookie"]]
    skin = rendition.options.get("skin", "support")
    if skin == "support":
        out += [words["helpful"], words["rights"]]
    elif skin == "intranet":
        out += [words["intranet"][4], words["rights"]]
    else:
        out += [words["newsletter"], words["rights"]]
    return [str(text) for text in out]


def body(blocks: Sequence[Block]) -> str:
    out: list[str] = []
    open_list = ""
    for block in blocks:
        tag = {"bullet": "ul", "number": "ol"}.get(block.kind, "")
        if open_list and tag != open_list:
            out.append(f"</{open_list}>")
            open_list = ""
        if tag and not open_list:
            out.append(f"<{tag}>")
            open_list = tag
        if tag:
            out.append(f"  <li>{inline_html(block.text)}</li>")
        elif block.kind == "heading":
            out.append(f"<h{block.level}>{inline_html(block.text)}</h{block.level}>")
        elif block.kind == "table":
            head, *rows = block.rows
            out.append('<table class="data">\n<thead><tr>' + "".join(f"<th>{inline_html(c)}</th>" for c in head) + "</tr></thead>\n<tbody>")
            out += ["<tr>" + "".join(f"<td>{inline_html(c)}</td>" for c in row) + "</tr>" for row in rows]
            out.append("</tbody></table>")
        elif block.kind == "callout":
            out.append(f'<div class="callout"><p>{inline_html(block.text)}</p></div>')
        elif block.kind == "footnote":
            out.append(f'<p class="note"><sup>{block.number}</sup> {inline_html(block.text)}</p>')
        elif block.kind == "code":
            out.append(f"<pre><code>{html.escape(block.text)}</code></pre>")
        elif block.kind == "paragraph":
            out.append(f"<p>{inline_html(block.text)}</p>")
    if open_list:
        out.append(f"</{open_list}>")
    return "\n".join(out)


def _links(names: Sequence[str]) -> str:
    return "\n".join(f'    <li><a href="#">{html.escape(name)}</a></li>' for name in names)


def render(rendition: Rendition) -> bytes:
    """An HTML page in the skin its header names."""
    words = WORDS[rendition.language]
    options = rendition.options
    skin = options.get("skin", "support")
    title = html.escape(plain(rendition.title))
    crumbs = " › ".join(html.escape(str(c)) for c in options.get("crumbs", ["Brinkhal"]))
    related = [str(r) for r in options.get("related", [])]
    content = body(rendition.blocks)
    nav = words["intranet"] if skin == "intranet" else words["nav"]
    cookie = (
        f'<div id="cookie-banner" class="cookie-consent" role="dialog">\n  <p>{words["cookie"]}</p>\n'
        f"  <button>{words['accept']}</button> <button>{words['reject']}</button>\n</div>"
    )
    links = _links([str(name) for name in words["footer"]])
    footer = f'<footer class="site-footer">\n  <ul>\n{links}\n  </ul>\n  <p>{words["rights"]}</p>\n</footer>'
    related_html = (
        f'<aside class="related">\n  <h4>{words["related"]}</h4>\n  <ul>\n{_links(related)}\n  </ul>\n</aside>' if related else ""
    )
    head = (
        f'<!DOCTYPE html>\n<html lang="{rendition.language}">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        "<style>body{font-family:sans-serif;margin:0}.cookie-consent{position:fixed;bottom:0}.data td{border:1px solid #999}</style>\n"
        "<script>window.dataLayer=window.dataLayer||[];function consent(v){dataLayer.push({event:'consent',value:v})}</script>\n</head>\n"
    )
    navigation = f'<nav class="main-menu" aria-label="menu">\n  <ul>\n{_links([str(n) for n in nav])}\n  </ul>\n</nav>'
    if skin == "intranet":
        page = (
            f'<body>\n<a class="skip" href="#content">{words["skip"]}</a>\n<div class="topbar">{navigation}</div>\n{cookie}\n'
            f'<div class="layout">\n<main id="content">\n{content}\n</main>\n{related_html}\n</div>\n{footer}\n</body>\n</html>\n'
        )
    elif skin == "public":
        page = (
            f'<body>\n<header class="site-header"><div class="logo">Brinkhal</div>{navigation}</header>\n{cookie}\n'
            f'<article>\n{content}\n</article>\n<section class="newsletter"><p>{words["newsletter"]}</p>'
            f'<form><input type="email" name="address"><button>OK</button></form></section>\n{related_html}\n{footer}\n</body>\n</html>\n'
        )
    else:
        page = (
            f'<body>\n<a class="skip" href="#content">{words["skip"]}</a>\n<header>{navigation}\n'
            f'<form class="search"><input type="search" placeholder="{words["search"]}"></form></header>\n{cookie}\n'
            f'<p class="breadcrumb">{words["crumb"]} {crumbs}</p>\n<main id="content">\n<article>\n{content}\n</article>\n'
            f'<div class="feedback"><p>{words["helpful"]}</p><button>{words["yes"]}</button><button>{words["no"]}</button></div>\n'
            f"</main>\n{related_html}\n{footer}\n</body>\n</html>\n"
        )
    return (head + page).encode("utf-8")
