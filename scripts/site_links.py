"""A hook of mkdocs (mkdocs.yml): pages link files of the repository that are no pages. On the site such a link leads to
the repository if `repo_url` is set, and else is the text with the file's path. A file that is not there is an error."""
import os
import posixpath
import re

from mkdocs.exceptions import PluginError

LINK = re.compile(r"(?<!\!)\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown, page, config, files):
    root = os.path.dirname(config.config_file_path)
    folder = posixpath.dirname(page.file.src_uri)

    def resolve(match):
        text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if not os.path.exists(os.path.join(root, path)):
            raise PluginError(f"{page.file.src_uri}: '{target}' is not there")
        shown = files.get_file_from_path(posixpath.relpath(path, "docs")) if path.startswith("docs/") else None
        if shown is not None and not shown.inclusion.is_excluded():
            return match.group(0)
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path}{anchor})"
        return text if path in text else f"{text} (`{path}`)"

    parts, last = [], 0
    for block in CODE.finditer(markdown):  # code is shown as it is
        parts += [LINK.sub(resolve, markdown[last:block.start()]), block.group(0)]
        last = block.end()
    return "".join(parts) + LINK.sub(resolve, markdown[last:])
