"""Hooks of MkDocs, which add pages from outside docs/ and read Markdown as code hosts do.

The README is the home page. CHANGELOG.md and CONTRIBUTING.md are pages, too, and so is each file
that a page links to, such as an example, with its source. An API page has only a name, in the nav.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
_PAGES = {
    _ROOT / "README.md": "index.md",
    _ROOT / "CHANGELOG.md": "changelog.md",
    _ROOT / "CONTRIBUTING.md": "contributing.md",
}
_LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".yaml": "yaml"}
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)]*)?\)")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")


def on_config(config: MkDocsConfig) -> None:
    """Makes anchors as code hosts do, and shows the version at the end of each page."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    version = re.search(r'__version__ = "(.*)"', (_ROOT / "condacc/_version.py").read_text("utf-8"))
    assert version
    config.copyright = f"tf_condacc {version[1]}"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages from outside docs/, the API pages, and a page for each linked source."""
    for path, uri in _PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for uri in _entries(config.nav):
        if uri.startswith("api/"):
            files.append(File.generated(config, uri, content=_api_page(Path(uri).stem)))
    sources = {
        target
        for page in files.documentation_pages()
        if page.abs_src_path
        for match in _LINK.finditer(Path(page.abs_src_path).read_text("utf-8"))
        if (target := _target(Path(page.abs_src_path), match[1])).exists()
        and _uri(target).startswith("source/")
    }
    sources |= {file for folder in sources for file in _files_of(folder)}
    for source in sorted(sources):
        content = _listing(source) if source.is_dir() else _source(source)
        content = "---\nhide: [navigation, toc]\nsearch: {exclude: true}\n---\n" + content
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, _uri(source), content=content, inclusion=level))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages."""
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation"]  # It would contain only this page.
    if not page.file.abs_src_path:
        return markdown
    source = Path(page.file.abs_src_path)

    def moved(match: re.Match[str]) -> str:
        uri = os.path.relpath(_uri(_target(source, match[1])), Path(page.file.src_uri).parent)
        return f"]({uri}{match[2] or ''})"

    return "".join(
        line if is_code else _LINK.sub(moved, line)
        for line, is_code in _with_wide_indentation(markdown)
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links full names to the API, and lets long names in tables break behind their dots."""
    if page.file.src_uri.startswith("api/"):
        config.plugins["autorefs"].register_url(Path(page.file.src_uri).stem, page.url)
    html = re.sub(
        r'(?<!">)<code>(tf_condacc[\w.]*)(\(\))?</code>',
        r'<autoref identifier="\1" optional>\g<0></autoref>',
        html,
    )
    cells = re.split(r"(<td.*?</td>)", html, flags=re.DOTALL)
    return "".join(
        re.sub(r"(?<=[a-z\d]\.)(?=[A-Za-z_]\w*[^<>]*</code>)", "<wbr>", cell)
        if cell.startswith("<td")
        else cell
        for cell in cells
    )


def _entries(nav: Any) -> Iterator[str]:
    """Yields the pages of a nav."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _entries(entry)


def _api_page(module: str) -> str:
    page = f"# `{module}`\n\n::: {module}\n"
    if module == "tf_condacc.sparse":  # The class is described once.
        page += "    options: {members: false}\n\n- [tf_condacc.SparseConditionalAccumulator][]\n"
    return page


def _target(page: Path, link: str) -> Path:
    return Path(os.path.normpath(page.parent / link))


def _uri(path: Path) -> str:
    """Returns where a file of the repository is in the site."""
    if path in _PAGES:
        return _PAGES[path]
    if path.is_relative_to(_DOCS) and path.suffix in (".md", ".png", ".svg"):
        return path.relative_to(_DOCS).as_posix()
    name = path.relative_to(_ROOT).as_posix()
    return f"source/{name}/index.md" if path.is_dir() else f"source/{name}.md"


def _files_of(folder: Path) -> list[Path]:
    """Returns the files below a folder that are text."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in (*_LANGUAGES, ".sh", ".txt") and "__pycache__" not in path.parts
    ]


def _source(path: Path) -> str:
    text, language = path.read_text("utf-8"), _LANGUAGES.get(path.suffix, "text")
    return f"# `{path.relative_to(_ROOT)}`\n\n````{language}\n{text}````\n"


def _listing(folder: Path) -> str:
    names = [path.relative_to(folder).as_posix() for path in _files_of(folder)]
    items = "".join(f"- [`{name}`]({name}.md)\n" for name in names)
    return f"# `{folder.relative_to(_ROOT)}`\n\n{items}"


def _with_wide_indentation(markdown: str) -> Iterator[tuple[str, bool]]:
    """Indents the contents of list items by four columns, which Python-Markdown requires.

    Code hosts require as many columns as the item's marker takes: two, or three in numbered lists.
    They also recognize an item right after a paragraph, without an empty line between them.

    Yields:
        Each line, and whether it is code.
    """
    contents: list[int] = []  # The columns at which the text of the open items begins.
    after_blank, in_paragraph, in_code = True, False, False
    for line in markdown.splitlines(keepends=True):
        text = line.lstrip(" ")
        indent, item = len(line) - len(text), None if in_code else _ITEM.match(text)
        if not text.strip():
            yield line, in_code
            after_blank, in_paragraph = True, False
            continue
        if in_paragraph and item and (contents or item[0][0] in "-*+" or item[0] == "1. "):
            yield "\n", False
        fence = text.startswith("```")
        if (after_blank or item or fence or text.startswith("#")) and not in_code:
            while contents and indent < contents[-1]:
                contents.pop()
        if in_code or fence:
            in_paragraph = in_code and fence
        else:
            in_paragraph = not item and (after_blank or in_paragraph)
        after_blank = False
        outer = contents[-1] if contents else 0
        moved = " " * (4 * len(contents) + max(indent - outer, 0)) + text
        yield moved, in_code or fence
        in_code ^= fence
        if item:
            contents.append(indent + item.end())
