"""Reading a page as a browser would: its elements, its texts, and whether anything in it could act."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "input", "line", "circle", "rect"}
KNOWN = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "h1",
    "h2",
    "h3",
    "p",
    "bdi",
    "b",
    "i",
    "div",
    "span",
    "ul",
    "li",
    "section",
    "article",
    "figure",
    "figcaption",
    "svg",
    "text",
    "rect",
    "circle",
    "line",
    "table",
    "tr",
    "th",
    "td",
    "a",
    "details",
    "summary",
    "pre",
    "br",
    "code",
    "em",
    "strong",
    "label",
    "input",
    "button",
    "kbd",
    "textarea",
    "noscript",
    "script",
    "thead",
    "tbody",
    "ol",
    "blockquote",
    "hr",
    "h4",
    "h5",
    "h6",
}


class Reader(HTMLParser):
    """Collects elements and texts; complains of what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> inside of {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def assert_harmless(page: str, scripts: int = 0) -> Reader:
    """Nothing in the page acts but the given number of scripts of ours, and it asks nothing of any network."""
    reader = Reader(page)
    assert not reader.open, reader.open
    policies = [
        attrs["content"] for tag, attrs in reader.elements if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert "default-src 'none'" in policies[0]
    assert "unsafe-inline'; img-src" in policies[0], "inline styles only"
    running = [attrs for tag, attrs in reader.elements if tag == "script" and attrs.get("type") != "application/json"]
    assert len(running) == scripts
    for tag, attrs in reader.elements:
        assert tag in KNOWN, tag
        assert not [name for name in attrs if name.startswith("on")], attrs
        assert "src" not in attrs
        assert "srcdoc" not in attrs
        link = attrs.get("href") or attrs.get("xlink:href") or ""
        assert not link or link.startswith("feedback/") or "/" not in link, link
        assert ":" not in link, link
        assert "url(" not in (attrs.get("style") or "")
    return reader
