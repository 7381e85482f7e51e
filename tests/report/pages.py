"""Pages as a reader of HTML sees them: tags, ids, links, text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Element:
    """A tag with its attributes, what is around it, and the text in it."""

    tag: str
    attributes: dict[str, str]
    around: list[Element] = field(default_factory=list, repr=False)
    text: str = ""

    def inside(self, tag: str) -> bool:
        return any(one.tag == tag for one in self.around)


class Page(HTMLParser):
    """Reads a page; tags that are not closed, or closed wrongly, are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[Element] = []
        self.elements: list[Element] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice: {tag} {names}"
        element = Element(tag, {n: v or "" for n, v in attrs}, list(self.open))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Elements of a tag with these attributes; `class_` stands for `class`."""
        wanted = {k.rstrip("_"): v for k, v in attributes.items()}
        return [
            e
            for e in self.elements
            if e.tag == tag and all(e.attributes.get(k) == v for k, v in wanted.items())
        ]

    def by_id(self, name: str) -> Element:
        (found,) = [e for e in self.elements if e.attributes.get("id") == name]
        return found

    def cells(self, label: str) -> list[list[str]]:
        """The rows of the table in the region of a label, without the head."""
        (region,) = [e for e in self.elements if e.attributes.get("aria-label") == label]
        rows = [e for e in self.all("tr") if region in e.around and not e.inside("thead")]
        return [
            [c.text.strip() for c in self.elements if c.tag in ("td", "th") and row in c.around]
            for row in rows
        ]


def checked(text: str) -> Page:
    """A page that is well formed, needs no network, and is labelled throughout."""
    page = Page(text)
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    for element in page.elements:
        assert element.tag not in ("script", "link", "iframe", "object", "embed", "base")
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            if name in ("href", "xlink:href", "src"):
                assert value.startswith(("#", "data:image/png;base64,")), value
                assert not value.startswith("#") or value[1:] in ids, value
            if name == "aria-labelledby":
                assert value in ids
            for target in value.split("url(")[1:]:
                assert target.startswith("#")
                assert target[1:].split(")")[0] in ids
        if element.tag == "svg":
            hidden = element.attributes.get("aria-hidden") == "true"
            named = element.attributes.get("role") == "img" and element.attributes["aria-label"]
            assert hidden or named
        if element.tag == "th":
            assert element.attributes["scope"] in ("col", "row")
            assert element.text.strip()
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert len(page.all("h1")) == len(page.all("main")) == 1
    return page
