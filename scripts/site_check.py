"""Checks that the pages of a built site load nothing from another host.

    python scripts/site_check.py FOLDER

Links for readers to follow may lead anywhere. Exit code 1: a page loads something from elsewhere, or there are no pages.
"""

import pathlib
import re
import sys
from html.parser import HTMLParser

# The attributes that load something, by element. A link loads unless it only names a page.
LOADS = {"src", "srcset", "poster", "data", "background"}
NAMES = {"canonical", "prev", "next", "alternate", "author", "license", "search", "edit"}
ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.I)
IN_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?\s*((?:https?:)?//[^"')\s]+)""", re.I)


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.style = [], False

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.style = tag == "style"
        for name, value in attributes:
            loads = name in LOADS or name == "style" or (name.endswith("href") and tag in {"use", "image"})
            if tag == "link" and name == "href":
                loads = not set((values.get("rel") or "").lower().split()) <= NAMES
            if not loads or not value:
                continue
            targets = IN_STYLE.findall(value) if name == "style" else [part.strip() for part in value.split(",")] if name == "srcset" else [value]
            self.found += [f"<{tag} {name}> {target}" for target in targets if ELSEWHERE.match(target)]

    def handle_endtag(self, tag):
        self.style = False

    def handle_data(self, data):
        if self.style:
            self.found += [f"<style> {target}" for target in IN_STYLE.findall(data)]


def main(folder):
    root = pathlib.Path(folder)
    pages, bad = sorted(root.rglob("*.html")), []
    for path in pages:
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        bad += [f"{path}: {found}" for found in page.found]
    for path in sorted([*root.rglob("*.css"), *root.rglob("*.svg")]):
        text = path.read_text(encoding="utf-8")
        bad += [f"{path}: {target}" for target in IN_STYLE.findall(text)]
    for line in bad:
        print(f"{line} comes from another host", file=sys.stderr)
    if not pages:
        print(f"{root} has no pages", file=sys.stderr)
    if bad or not pages:
        return 1
    print(f"site: {len(pages)} pages, which load nothing from other hosts")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
