"""Lays documents out as PDF: columns, ruled tables, footnotes, running heads, page numbers.

What belongs here: a small deterministic typesetter over pymupdf's TextWriter, and the record of what stands on each page in
reading order, which is where the reference transcripts come from. What does not: page images (scan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sample_builder.markup import BOLD, LINK, NOTE_MARK, Block, ContentError, Rendition, block_text

FACES = {
    "serif": ("tiro", "tibo"),
    "sans": ("helv", "hebo"),
    "mono": ("cour", "cobo"),
}
PAGE_SIZES = {
    "a4": (595.0, 842.0),
    "a5": (420.0, 595.0),
    "booklet": (498.0, 708.0),
    "slip": (420.0, 430.0),
    "letter": (612.0, 792.0),
}
VOWELS = set("aeiouyäöüé")
SUPERSCRIPT = 0.65
HEAD_SIZE = 8.0
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Fragment = tuple[str, str]  # text and style: r regular, b bold, s superscript


@dataclass
class Line:
    """One set line; `glue` joins its text to the next line's (nothing after a hyphenated break)."""

    words: list[list[Fragment]]
    glue: str = " "
    dash: bool = False

    @property
    def text(self) -> str:
        """The words as read; footnote marks are raised digits."""
        return " ".join("".join(t.translate(RAISED) if style == "s" else t for t, style in word) for word in self.words)

    @property
    def notes(self) -> list[int]:
        return [int(t) for word in self.words for t, style in word if style == "s"]


@dataclass
class Page:
    """What stands on one page, in reading order: (block index, text) pieces, and the footnotes below them."""

    pieces: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def fragments(text: str, style: str = "r") -> list[list[Fragment]]:
    """Words of an inline text, each a list of styled fragments."""
    text = LINK.sub(r"\1", text).replace("`", "")
    runs: list[Fragment] = []
    at = 0
    for match in BOLD.finditer(text):
        runs += [(text[at : match.start()], style), (match[1], "b")]
        at = match.end()
    runs.append((text[at:], style))
    words: list[list[Fragment]] = [[]]
    for run, run_style in runs:
        at = 0
        for note in [*NOTE_MARK.finditer(run), None]:
            piece = run[at : note.start() if note else len(run)]
            parts = piece.split(" ")
            for number, part in enumerate(parts):
                if number and words[-1]:
                    words.append([])
                if part:
                    words[-1].append((part, run_style))
            if note:
                words[-1].append((note[1], "s"))
                at = note.end()
    return [word for word in words if word]


class Typesetter:
    """Sets blocks on pages. `options`: columns, size, face, head, foot, hyphenate, rules (grid or horizontal), page, margin."""

    def __init__(self, rendition: Rendition, options: dict[str, Any]) -> None:
        import pymupdf

        self.mu: Any = pymupdf
        self.rendition = rendition
        self.options = options
        self.width, self.height = PAGE_SIZES[options.get("page", "a4")]
        self.margin = float(options.get("margin", 54))
        self.columns = int(options.get("columns", 1))
        self.gutter = 20.0
        self.size = float(options.get("size", 9.5 if self.columns > 1 else 10))
        regular, bold = FACES[options.get("face", "sans")]
        self.fonts = {"r": self.mu.Font(regular), "b": self.mu.Font(bold), "s": self.mu.Font(regular)}
        self.column_width = (self.width - 2 * self.margin - self.gutter * (self.columns - 1)) / self.columns
        self.document = self.mu.open()
        self.widths: dict[str, dict[str, float]] = {style: {} for style in self.fonts}
        self.pages: list[Page] = []
        self.writers: list[Any] = []
        self.ruled: list[list[tuple[tuple[float, float], tuple[float, float], float]]] = []
        self.notes = {b.number: b for b in rendition.blocks if b.kind == "footnote"}
        self.placed_notes: set[int] = set()
        self._new_page(first=True)

    # ------------------------------------------------------------------------------------------------------ pages
    def _new_page(self, first: bool = False) -> None:
        if not first:
            self._finish_column()
        self.page = self.document.new_page(width=self.width, height=self.height)
        self.writer = self.mu.TextWriter(self.page.rect)
        self.writers.append(self.writer)
        self.rules: list[tuple[tuple[float, float], tuple[float, float], float]] = []
        self.ruled.append(self.rules)
        self.pages.append(Page())
        self.column = 0
        self.top = self.margin + (16 if self.options.get("head") else 0)
        self.bottom = self.height - self.margin - (14 if self.options.get("foot", "page") else 0)
        self.y = self.top
        self.column_notes: list[int] = []

    def _next_column(self) -> None:
        if self.column + 1 < self.columns:
            self._finish_column()
            self.column += 1
            self.y = self.top
            self.column_notes = []
        else:
            self._new_page()

    def _finish_column(self) -> None:
        if not self.column_notes:
            return
        size = self.size * 0.8
        height = sum(self._note_height(n) for n in self.column_notes)
        y = self.bottom - height
        self._rule((self.left, y - 3), (self.left + 80, y - 3), 0.5)
        for number in self.column_notes:
            note = self.notes[number]
            for line in self._break(f"{number} {note.text}", self.column_width, size):
                self._draw_line(line, self.left, y + size, size)
                y += size * 1.25
            self.pages[-1].notes.append(block_text(note))
        self.column_notes = []

    @property
    def left(self) -> float:
        return self.margin + self.column * (self.column_width + self.gutter)

    def _note_height(self, number: int) -> float:
        size = self.size * 0.8
        return len(self._break(f"{number} {self.notes[number].text}", self.column_width, size)) * size * 1.25

    def _room(self, notes: Sequence[int] = ()) -> float:
        reserved = sum(self._note_height(n) for n in [*self.column_notes, *notes])
        return self.bottom - (reserved + 8 if reserved else 0) - self.y

    # ------------------------------------------------------------------------------------------------------ lines
    def _rule(self, start: tuple[float, float], end: tuple[float, float], width: float) -> None:
        """A line on the page that is being set; the lines of a page are written together, which is ten times quicker."""
        self.rules.append((start, end, width))

    def _width(self, text: str, size: float, style: str = "r") -> float:
        """Width of a text in points, without kerning, as TextWriter sets it; a glyph is measured once."""
        widths = self.widths[style]
        for glyph in text:
            if glyph not in widths:
                widths[glyph] = float(self.fonts[style].glyph_advance(ord(glyph)))
        return sum(widths[glyph] for glyph in text) * size

    def _measure(self, word: Sequence[Fragment], size: float) -> float:
        return sum(self._width(text, size * (SUPERSCRIPT if style == "s" else 1), style) for text, style in word)

    def _break(self, text: str, width: float, size: float, style: str = "r") -> list[Line]:
        space = self._width(" ", size)
        lines: list[Line] = []
        current: list[list[Fragment]] = []
        used = 0.0
        queue = fragments(text, style)
        while queue:
            word = queue.pop(0)
            wide = self._measure(word, size)
            start = used + (space if current else 0)
            if current and start + wide > width:
                split = self._hyphenate(word, width - start, size) if self.options.get("hyphenate") else None
                if split:
                    head, tail = split
                    lines.append(Line([*current, head], glue="", dash=True))
                    current, used = [], 0.0
                    queue.insert(0, tail)
                    continue
                lines.append(Line(current))
                current, used, start = [], 0.0, 0.0
            current.append(word)
            used = start + wide
        if current:
            lines.append(Line(current))
        return lines

    def _hyphenate(self, word: Sequence[Fragment], width: float, size: float) -> tuple[list[Fragment], list[Fragment]] | None:
        if len(word) != 1 or len(word[0][0]) < 9 or not word[0][0].rstrip(".,;:").isalpha():
            return None
        text, style = word[0]
        low = text.lower()
        for at in range(len(text) - 4, 2, -1):
            a, b, c, d = low[at - 2], low[at - 1], low[at], low[at + 1]
            if a in VOWELS and b not in VOWELS and c not in VOWELS and d in VOWELS and b + c not in ("ch", "sch", "th", "ph", "ck"):
                head = [(text[:at], style)]
                if self._measure([(text[:at] + "-", style)], size) <= width:
                    return head, [(text[at:], style)]
        return None

    def _draw_line(self, line: Line, x: float, y: float, size: float) -> None:
        runs: list[list[Any]] = []
        for number, word in enumerate(line.words):
            for position, (text, style) in enumerate(word):
                lead = " " if number and not position else ""
                if runs and runs[-1][1] == style and style != "s":
                    runs[-1][0] += lead + text
                elif runs and lead:
                    runs[-1][0] += lead
                    runs.append([text, style])
                else:
                    runs.append([text, style])
        if line.dash:
            runs[-1][0] += "-"
        for text, style in runs:
            scale = size * SUPERSCRIPT if style == "s" else size
            rise = size * 0.35 if style == "s" else 0
            self.writer.append((x, y - rise), text, font=self.fonts[style], fontsize=scale)
            x += self._width(text, scale, style)

    def _record(self, index: int, text: str) -> None:
        pieces = self.pages[-1].pieces
        if pieces and pieces[-1][0] == index:
            pieces[-1] = (index, pieces[-1][1] + text)
        else:
            pieces.append((index, text))

    def _set(
        self,
        index: int,
        text: str,
        *,
        size: float,
        style: str = "r",
        indent: float = 0,
        label: str = "",
        lead: float = 1.32,
        before: float = 0,
        after: float = 6,
        keep: int = 1,
        follow: float = 0,
        width: float | None = None,
    ) -> None:
        width = (width or self.column_width) - indent
        lines = self._break(text, width, size, style)
        if self.y > self.top:
            self.y += before
        if self._room() < min(keep, len(lines)) * size * lead + follow:
            self._next_column()
        for number, line in enumerate(lines):
            notes = [n for n in line.notes if n in self.notes and n not in self.placed_notes]
            if self._room(notes) < size * lead:
                self._next_column()
            self.column_notes += notes
            self.placed_notes.update(notes)
            if label and not number:
                self.writer.append((self.left, self.y + size), label, font=self.fonts["r"], fontsize=size)
            self._draw_line(line, self.left + indent, self.y + size, size)
            prefix = f"{label} " if label and label != "•" and not number else ""
            tail = "" if number + 1 == len(lines) else line.glue
            self._record(index, prefix + line.text + tail)
            self.y += size * lead
        self.y += after

    # ------------------------------------------------------------------------------------------------------ tables
    def _table(self, index: int, block: Block) -> None:
        pad, total = 4.0, self.column_width
        columns = range(len(block.rows[0]))
        for scale in (0.9, 0.82, 0.74, 0.66):  # a narrow column gets a smaller table, not a table that runs out of it
            size = self.size * scale
            natural = [max(self._natural(row[c], size, r == 0) for r, row in enumerate(block.rows)) + 2 * pad + 1 for c in columns]
            least = [max(self._longest(row[c], size, r == 0) for r, row in enumerate(block.rows)) + 2 * pad + 1 for c in columns]
            if sum(least) <= total:
                break
        else:
            raise ContentError(f"{self.rendition.path}: table at {block.rows[0]!r} is too wide for its column")
        if sum(natural) <= total:
            widths = [w + (total - sum(natural)) * w / sum(natural) for w in natural]
        else:
            spare = max(0.0, total - sum(least))
            wish = [n - m for n, m in zip(natural, least, strict=True)]
            widths = [m + spare * w / max(1e-9, sum(wish)) for m, w in zip(least, wish, strict=True)]
        set_rows = [
            [self._break(cell, widths[c] - 2 * pad, size, "b" if r == 0 else "r") for c, cell in enumerate(row)]
            for r, row in enumerate(block.rows)
        ]
        heights = [max(len(cell) for cell in row) * size * 1.22 + 2 * pad - 1 for row in set_rows]
        whole = sum(heights) < 0.6 * (self.bottom - self.top)  # only a long table is split
        if self._room() < sum(heights if whole else heights[:3]):
            self._next_column()
        self._row_line(widths)
        for r, row in enumerate(set_rows):
            if self._room() < heights[r]:
                self._next_column()
                self._row_line(widths)
                if r:
                    self._row(set_rows[0], widths, heights[0], size, pad)
            self._row(row, widths, heights[r], size, pad)
            self._record(index, ("\n" if r else "") + " ".join(block_text(Block("paragraph", c)) for c in block.rows[r] if c))
        self.y += 9

    def _figure(self, labels: Sequence[str]) -> None:
        """A drawing of labelled boxes joined by lines, put on the page as a picture: no text layer, no entry in the record."""
        drawing = self.mu.open()
        step, width, height = 34.0, self.column_width, 20 + 34.0 * len(labels)
        canvas = drawing.new_page(width=width, height=height)
        writer = self.mu.TextWriter(canvas.rect)
        canvas.draw_rect((8, 10, 96, height - 14), width=1)
        writer.append((22, height / 2), "X5  board", font=self.fonts["b"], fontsize=10)
        for number, label in enumerate(labels):
            y = 14 + step * number
            canvas.draw_rect((170, y, width - 10, y + 24), width=1)
            canvas.draw_line((96, y + 12), (170, y + 12), width=1)
            writer.append((180, y + 16), label, font=self.fonts["r"], fontsize=10)
        writer.write_text(canvas)
        if self._room() < height:
            self._next_column()
        box = self.mu.Rect(self.left, self.y, self.left + width, self.y + height)
        pixels = canvas.get_pixmap(dpi=130, colorspace=self.mu.csGRAY)
        self.page.insert_image(box, stream=pixels.tobytes("png"))
        self.y += height + 8

    def _natural(self, cell: str, size: float, header: bool) -> float:
        words = fragments(cell, "b" if header else "r")
        space = self._width(" ", size)
        return sum(self._measure(w, size) for w in words) + space * max(0, len(words) - 1)

    def _longest(self, cell: str, size: float, header: bool) -> float:
        return max((self._measure(word, size) for word in fragments(cell, "b" if header else "r")), default=0.0)

    def _row_line(self, widths: Sequence[float]) -> None:
        self._rule((self.left, self.y), (self.left + sum(widths), self.y), 0.6)

    def _row(self, row: Sequence[list[Line]], widths: Sequence[float], height: float, size: float, pad: float) -> None:
        x = self.left
        grid = self.options.get("rules", "grid") == "grid"
        for cell, width in zip(row, widths, strict=True):
            y = self.y + pad
            for line in cell:
                self._draw_line(line, x + pad, y + size - 1, size)
                y += size * 1.22
            if grid:
                self._rule((x, self.y), (x, self.y + height), 0.6)
            x += width
        if grid:
            self._rule((x, self.y), (x, self.y + height), 0.6)
        self.y += height
        self._row_line(widths)

    # ------------------------------------------------------------------------------------------------------ blocks
    def set_all(self) -> None:
        """Set every block, then the running heads, which need the number of pages."""
        size = self.size
        for index, block in enumerate(self.rendition.blocks):
            if block.kind == "heading":
                if block.level == 1:
                    wide = self.width - 2 * self.margin if index == 0 else None
                    self._set(index, block.text, size=size * 1.75, style="b", after=9, before=8, lead=1.2, width=wide)
                    if index == 0:
                        self.top = self.y  # columns of the first page start below the title
                else:
                    factor = {2: 1.28, 3: 1.1, 4: 1.0}[block.level]
                    self._set(index, block.text, size=size * factor, style="b", before=6, after=3, lead=1.25, follow=3 * size)
            elif block.kind == "paragraph":
                self._set(index, block.text, size=size, keep=2)
            elif block.kind == "bullet":
                self._set(index, block.text, size=size, indent=13, label="•", after=2.5)
            elif block.kind == "number":
                self._set(index, block.text, size=size, indent=17, label=f"{block.number}.", after=2.5)
            elif block.kind == "callout":
                top, page, column = self.y, len(self.pages), self.column
                self._set(index, block.text, size=size, indent=10, after=7, keep=3, before=2)
                if page == len(self.pages) and column == self.column:
                    self._rule((self.left + 2, top + 3), (self.left + 2, self.y - 5), 1.6)
            elif block.kind == "table":
                self._table(index, block)
            elif block.kind == "figure":
                self._figure([label for (label,) in block.rows])
            elif block.kind == "code":
                for line in block.text.split("\n"):
                    self._set(index, line, size=size * 0.9, indent=8, after=0)
                self.y += 6
            elif block.kind == "pagebreak":
                self._new_page()
        self._finish_column()
        self._running_heads()

    def _running_heads(self) -> None:
        for number, page in enumerate(self.document, start=1):
            self.writers[number - 1].write_text(page)
            writer = self.mu.TextWriter(page.rect)
            for text, right, below in self._head_and_foot(number):
                x = self.width - self.margin - self._width(text, HEAD_SIZE) if right else self.margin
                y = self.height - self.margin + 10 if below else self.margin - 6
                writer.append((x, y), text, font=self.fonts["r"], fontsize=HEAD_SIZE)
                if not below and not right:
                    self.ruled[number - 1].append(((self.margin, self.margin), (self.width - self.margin, self.margin), 0.4))
            writer.write_text(page, color=(0.35, 0.35, 0.35))
            shape = page.new_shape()
            for start, end, width in self.ruled[number - 1]:
                shape.draw_line(start, end)
                shape.finish(width=width)
            shape.commit()

    def _head_and_foot(self, number: int) -> list[tuple[str, bool, bool]]:
        """Texts around a page as (text, at the right, at the bottom)."""
        head, foot = str(self.options.get("head") or ""), str(self.options.get("foot", "page"))
        if number == 1 and self.options.get("first_page_bare"):
            head = ""
        foot = {"page": "||{n}", "of": "||{n} / {N}"}.get(foot, foot).replace("{n}", str(number)).replace("{N}", str(len(self.pages)))
        pairs = [(head.partition("||"), False), (foot.partition("||"), True)]
        return [(text, right, below) for (left, _, other), below in pairs for text, right in ((left, False), (other, True)) if text]

    def save(self) -> bytes:
        """The file's bytes: no dates, no random ids."""
        self.document.set_metadata({"title": self.rendition.title, "producer": "", "creator": ""})
        self.document.subset_fonts()
        return bytes(self.document.tobytes(garbage=4, deflate=True, no_new_id=True))

    def page_texts(self) -> list[str]:
        """The text of each page in reading order, without running heads: a block a line."""
        return ["\n".join([*(text.rstrip() for _, text in page.pieces), *page.notes]) + "\n" for page in self.pages]


def render(rendition: Rendition) -> tuple[bytes, list[str]]:
    """A PDF's bytes and the reference text of each page."""
    setter = Typesetter(rendition, dict(rendition.options))
    setter.set_all()
    return setter.save(), setter.page_texts()
