"""One request for all style sheets of the site, and one for all its scripts.

The sources stay apart, a file for each thing on a page. A reader on a slow line waits for every
request, so a page asks for them joined, in the order in which `mkdocs.yml` lists them.
"""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

# In the folders of their parts, so that the addresses of fonts in a style sheet hold.
STYLES = "assets/stylesheets/site.css"
SCRIPTS = "assets/javascripts/site.js"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the joined files in the place of their parts."""
    for paths, whole in ((config.extra_css, STYLES), (config.extra_javascript, SCRIPTS)):
        files.append(File.generated(config, whole, content=join([*map(str, paths)], files)))
        paths[:] = [whole]
    return files


def join(paths: list[str], files: Files) -> str:
    """Take the parts out of what is published, and give their texts as one.

    Raises:
        PluginError: one of them is not a file of this project.
    """
    texts = []
    for path in paths:
        part = files.get_file_from_path(path)
        if part is None:
            raise PluginError(
                f"mkdocs.yml lists {path} in extra_css or extra_javascript; "
                f"there is no docs/{path}: mend the name."
            )
        files.remove(part)
        texts.append(part.content_string)
    return "\n".join(texts)
