"""Makes scans from known text: a page is set as PDF, drawn at low resolution, turned, blurred and speckled.

What belongs here: the damage a scanner does, with a fixed seed for each file. What does not: typesetting (pdf.py).
"""

from __future__ import annotations

import io
import zlib
from typing import Any

from sample_builder.markup import Rendition
from sample_builder.pdf import Typesetter


def page_images(rendition: Rendition) -> tuple[list[Any], list[str]]:
    """Grey page images and their reference texts. `scan` options: dpi, rotate (degrees), noise, blur, contrast, streaks."""
    import numpy as np
    import pymupdf as untyped
    from PIL import Image, ImageFilter

    pymupdf: Any = untyped

    wish: dict[str, Any] = dict(rendition.options.get("scan", {}))
    setter = Typesetter(rendition, {**rendition.options})
    setter.set_all()
    source = pymupdf.open("pdf", setter.save())
    random = np.random.default_rng(zlib.crc32(rendition.path.encode()))
    images = []
    for page in source:
        pixels = page.get_pixmap(dpi=int(wish.get("dpi", 150)), colorspace=pymupdf.csGRAY)
        image = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
        image = image.rotate(float(wish.get("rotate", 0)), resample=Image.Resampling.BICUBIC, fillcolor=255)
        if blur := float(wish.get("blur", 0)):
            image = image.filter(ImageFilter.GaussianBlur(blur))
        grey: Any = np.asarray(image, dtype=np.float32)
        paper, ink = float(wish.get("paper", 245)), float(wish.get("ink", 35))
        grey = ink + grey / 255 * (paper - ink)
        if wish.get("shade"):
            grey -= np.linspace(0, float(wish["shade"]), grey.shape[1], dtype=np.float32)[None, :]
        if noise := float(wish.get("noise", 0)):
            grey += random.normal(0, noise, grey.shape).astype(np.float32)
        if specks := int(wish.get("specks", 0)):
            rows, cols = random.integers(1, grey.shape[0] - 2, specks), random.integers(1, grey.shape[1] - 2, specks)
            for row, col in zip(rows.tolist(), cols.tolist(), strict=True):
                grey[row : row + 2, col : col + 2] = 40
        for col in random.integers(20, grey.shape[1] - 20, int(wish.get("streaks", 0))).tolist():
            grey[:, col] = np.minimum(grey[:, col], 150)
        image = Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8))
        if levels := int(wish.get("levels", 0)):
            step = 255 / (levels - 1)
            image = image.point([round(round(v / step) * step) for v in range(256)])
        images.append(image)
    return images, setter.page_texts()


def render(rendition: Rendition) -> tuple[bytes, list[str]]:
    """A scan as PNG, JPEG or image-only PDF, and the text that stands on each page."""
    images, texts = page_images(rendition)
    quality = int(rendition.options.get("scan", {}).get("quality", 60))
    suffix = rendition.path.rsplit(".", 1)[-1].lower()
    dpi = int(rendition.options.get("scan", {}).get("dpi", 150))
    if suffix == "pdf":
        import pymupdf as untyped

        pymupdf: Any = untyped
        document = pymupdf.open()
        for image in images:
            page = document.new_page(width=image.width * 72 / dpi, height=image.height * 72 / dpi)
            page.insert_image(page.rect, stream=_encode(image, "JPEG", quality, dpi))
        document.set_metadata({})
        return bytes(document.tobytes(garbage=4, deflate=False, no_new_id=True)), texts
    if len(images) != 1:
        raise ValueError(f"{rendition.path}: a scan image holds one page, the text takes {len(images)}")
    return _encode(images[0], "PNG" if suffix == "png" else "JPEG", quality, dpi), texts


def _encode(image: Any, form: str, quality: int, dpi: int) -> bytes:
    out = io.BytesIO()
    if form == "PNG":
        image.save(out, "PNG", optimize=True, dpi=(dpi, dpi))
    else:
        image.save(out, "JPEG", quality=quality, dpi=(dpi, dpi))
    return out.getvalue()
