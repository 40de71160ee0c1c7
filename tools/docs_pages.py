"""Pages of the documentation site that are generated: the reference of all public names, and the gallery of examples.

mkdocs calls these functions as hooks. Nothing here imports gradsim: names and modules are read from the source.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import indent
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PACKAGE, EXAMPLES = ROOT / "src" / "gradsim", ROOT / "examples"

# Page of a public name: the first whose prefix its module has.
PAGES = {
    "scenes": ("Scenes", ("gradsim.scene.errors",), ()),
    "errors": ("Errors", (), ("gradsim.scene.errors",)),
    "footage": ("Footage", (), ("gradsim.footage",)),
    "control": (
        "Control",
        (),
        (
            "gradsim.fit.control",
            "gradsim.fit.goals",
            "gradsim.fit.plan",
            "gradsim.fit.policies",
            "gradsim.fit.rollout",
            "gradsim.report.plan_page",
            "gradsim.compare",
            "gradsim.environment",
        ),
    ),
    "estimation": ("Estimation", (), ("gradsim.fit", "gradsim.report")),
    "rendering": ("Rendering and video", (), ("gradsim.render", "gradsim.video", "gradsim.view")),
    "simulation": ("Simulation", (), ("gradsim.simulate", "gradsim.scene.trajectory", "gradsim.scene.integrators")),
}
MODULES = {"meshes": "Meshes", "datasets": "Data sets"}  # public modules with a page of their own
WORKER, REMOTE_WORKER = "javascripts/worker.js", "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"\]\((?:\.\./)+(examples/(\w+)\.py|[\w./-]+)\)")


def public_names() -> dict[str, str]:
    """Returns the public names of gradsim and the module that each comes from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                found[name.asname or name.name] = node.module
    listed = next(n for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__")
    return {name: found[name] for name in ast.literal_eval(listed.value)}


def page_of(name: str, module: str) -> str:
    """Returns the page of a public name."""
    if name in MODULES:
        return name
    if name == "errors":
        return "errors"
    for page, (_, _, prefixes) in PAGES.items():
        if any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes):
            return page
    return "scenes"


def reference_page(page: str) -> str:
    """Returns the text of a page of the reference."""
    if page in MODULES:
        options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
        return f"# {MODULES[page]}\n\n::: gradsim.{page}\n{options}"
    names = sorted((n for n, m in public_names().items() if page_of(n, m) == page), key=str.lower)
    if page == "errors":
        names.remove("errors")
    blocks = "\n\n".join(f"::: gradsim.{name}" for name in names)
    return f"# {PAGES[page][0]}\n\nAll names are in `import gradsim as gs`.\n\n{blocks}\n"


def gallery_page() -> str:
    """Returns the page of all examples: what each shows, its picture and its code."""
    parts = [
        "# Examples\n\nEach is one file in `examples/`, runs in seconds, and is run by the tests. "
        "The pictures show the last scene that an example simulated, at four times.\n"
    ]
    for file in sorted(EXAMPLES.glob("*.py")):
        text = file.read_text(encoding="utf-8")
        module = ast.parse(text)
        title, _, rest = (ast.get_docstring(module) or file.stem).partition("\n")
        code = "\n".join(text.splitlines()[module.body[0].end_lineno :]).strip()
        picture = f"![{title.rstrip('.')}](images/examples/{file.stem}.webp)\n\n"
        heading = file.stem.replace("_", " ").capitalize()
        parts.append(
            f"## {heading} {{#{file.stem}}}\n\n{title}\n{rest.strip()}\n\n{picture}"
            f'??? example "{file.name}"\n\n    ```python\n{indent(code, "    ")}\n    ```\n'
        )
    return "\n".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages."""
    for page in (*PAGES, *MODULES):
        files.append(File.generated(config, f"reference/{page}.md", content=reference_page(page)))
    files.append(File.generated(config, "gallery.md", content=gallery_page()))
    files.append(File.generated(config, WORKER, content=(ROOT / "tools" / "docs_worker.js").read_text()))
    return files


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Uses the worker of this site in place of one that would be loaded from a server."""
    return output.replace(REMOTE_WORKER, "../" * page.file.src_uri.count("/") + WORKER)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links to files outside docs/, which work in the repository, into links of the site or plain text."""
    up = "../" * page.file.src_uri.count("/")

    def replaced(match: re.Match[str]) -> str:
        return f"]({up}gallery.md#{match[2]})" if match[2] else match[0]

    return LINK.sub(replaced, markdown)
