"""Run the scripts behind a site's pages and show what they just printed.

A script is one Markdown file in `snippets/`: a title, one `python` fence with named sections, one
recorded output. This package knows nothing of what the scripts are about and imports nothing else
of `selfattn`.
"""

from selfattn.fresh.show import show

__all__ = ["show"]
