"""Hooks of mkdocs. The guide links to files beside the code; the site has only the guide."""

import os
import re
import shutil

# The theme's dark links are too dark. A long command wraps, and a word of code stays whole in a wide table.
STYLE = """<style>
[data-md-color-scheme=slate] { --md-typeset-a-color: #9fc1d6; }
.md-typeset pre > code[class*=language-] { white-space: pre-wrap; }
@media (min-width: 60em) { .md-typeset td code { word-break: normal; } }
</style>
</head>"""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_page_markdown(markdown, page, config, files):
    """Copies pictures that the page shows, and makes links that leave the guide plain text."""
    here = os.path.dirname(os.path.join(config["docs_dir"], page.file.src_path))

    def link(m):
        picture, text, target = m.groups()
        path = os.path.normpath(os.path.join(here, target.partition("#")[0]))
        inside = path.startswith(os.path.normpath(config["docs_dir"])) and path.endswith(".md")
        if "://" in target or target.startswith("#") or inside:
            return m.group(0)
        if picture:
            name = os.path.basename(os.path.dirname(path)) + "-" + os.path.basename(path)
            os.makedirs(config["site_dir"], exist_ok=True)
            shutil.copy(path, os.path.join(config["site_dir"], name))
            return '<img src="%s" alt="%s">' % (name, text)  # mkdocs does not know the copy
        root = os.path.normpath(os.path.join(config["docs_dir"], "../../.."))
        return "%s (`%s`)" % (text.strip("`"), os.path.relpath(path, root))

    return LINK.sub(link, markdown)


def on_post_page(output, page, config):
    """Adds to the theme's style."""
    return output.replace("</head>", STYLE, 1)
