"""Hooks of the documentation site (mkdocs.yml): pages from outside docs/, the API reference, and
checks of the built HTML.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
# Pages of the root directory and their names in the site. SECURITY.md would differ from
# security.md only in case.
ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "reporting.md",
}
# Public modules that are no packages; every top-level name in them is public.
PUBLIC_MODULES = ("toolcrib.context", "toolcrib.errors")
REFERENCE = "reference"

_LINK = re.compile(r"(?<=\]\()(?P<path>[\w./-]+)(?=[)#])")
_NO_RUN = re.compile(r'^(?P<fence> *`{3,}python) no-run="[^"]+"$', re.MULTILINE)


def public_names(source: Path) -> dict[str, tuple[str, ...]]:
    """The public modules under `source`, each with its public names.

    A package is public when it has an `__all__`; the modules in it are not.
    """
    names: dict[str, tuple[str, ...]] = {}
    for init in sorted(source.rglob("__init__.py")):
        module = ".".join(init.parent.relative_to(source).parts)
        exports = _exports(ast.parse(init.read_text("utf-8")))
        if exports and not any(part.startswith("_") for part in module.split(".")):
            names[module] = exports
    for module in PUBLIC_MODULES:
        tree = ast.parse((source / module.replace(".", "/")).with_suffix(".py").read_text("utf-8"))
        names[module] = _exports(tree) or tuple(_definitions(tree))
    return dict(sorted(names.items()))


def _exports(tree: ast.Module) -> tuple[str, ...]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return tuple(name for name in ast.literal_eval(value) if name != "__version__")
            case _:
                continue
    return ()


def _definitions(tree: ast.Module) -> Iterable[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if name[0] != "_":
                yield name
            case _:
                continue


def reference_page(source: Path, module: str, names: tuple[str, ...]) -> str:
    """The Markdown of a module's page in the API reference."""
    hidden = [name for name in names if _is_hidden(source, module, name)]
    # Without the list, names that are imported for type checkers only would be left out.
    members = "".join(f"        - {name}\n" for name in names if name not in hidden)
    lines = [f"# {module}\n", f"::: {module}\n    options:\n      members:\n{members}"]
    for name in hidden:
        lines.append(f"::: {module}.{name}.{name}\n    options:\n      show_root_heading: true\n")
    return "\n".join(lines)


def _is_hidden(source: Path, module: str, name: str) -> bool:
    """Whether a module of the same name hides `name` from a reader of the source."""
    return (source / module.replace(".", "/") / f"{name}.py").exists()


def site_link(path: str, *, page: str) -> str:
    """The target in the site of a link that works on a code host.

    `page` is the path of the linking page in the site.
    """
    if page in ROOT_PAGES.values() and path.startswith("docs/"):
        return path.removeprefix("docs/")
    if page in ROOT_PAGES.values() and path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("../"):
        return ROOT_PAGES.get(path.removeprefix("../"), path)
    return path


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the API reference to the navigation."""
    pages = [{module: f"{REFERENCE}/{module}.md"} for module in public_names(SOURCE)]
    config["nav"] = [*config["nav"], {"API reference": pages}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root directory and of the API reference."""
    for name, page in ROOT_PAGES.items():
        if files.get_file_from_path(page) is None:
            text = (ROOT / name).read_text("utf-8")
            files.append(File.generated(config, page, content=text))
    for module, names in public_names(SOURCE).items():
        text = reference_page(SOURCE, module, names)
        files.append(File.generated(config, f"{REFERENCE}/{module}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's pages, and drop the option of a block that the tests do not run."""
    markdown = _NO_RUN.sub(r"\g<fence>", markdown)
    return _LINK.sub(
        lambda match: site_link(match["path"], page=page.file.src_uri),
        markdown,
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Fail when a public name has no entry in the reference, or a page loads from elsewhere."""
    site = Path(config.site_dir)
    faults = [*missing_names(site, public_names(SOURCE)), *external_assets(site)]
    if faults:
        raise PluginError("the built site has faults:\n" + "\n".join(faults))


def missing_names(site: Path, names: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    """The public names that have no entry on their module's page."""
    for module, exports in names.items():
        elements = _read(site / REFERENCE / f"{module}.html")
        for name in exports:
            if not {f"{module}.{name}", f"{module}.{name}.{name}"} & elements.ids:
                yield f"{module}.{name} is not in the API reference"


def external_assets(site: Path) -> Iterable[str]:
    """Scripts, styles, images and frames of another host."""
    for page in sorted(site.rglob("*.html")):
        for asset in _read(page).assets:
            if re.match(r"(?:https?:)?//", asset):
                yield f"{page.relative_to(site)} loads {asset}"


class _Elements(HTMLParser):
    """The ids of a page, and the addresses that a browser fetches with it."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.assets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        address = values.get("href") if tag == "link" else values.get("src")
        if address and values.get("rel") != "canonical":
            self.assets.append(address)


def _read(page: Path) -> _Elements:
    elements = _Elements()
    elements.feed(page.read_text("utf-8"))
    return elements
