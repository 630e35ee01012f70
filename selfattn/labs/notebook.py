"""A lab as a Jupyter notebook: empty, or solved with the outputs that the engine has."""

import nbformat
from nbformat import NotebookNode, v4

from selfattn.labs.catalog import GIVEN, Lab
from selfattn.labs.starter import body, task


def empty(lab: Lab) -> str:
    """Give the notebook that a learner fills in, as JSON: each step's task, and a cell for it."""
    return _notebook(lab, solved=False, printed={})


def solved(lab: Lab, printed: dict[str, str]) -> str:
    """Give the notebook with the solution and its outputs, as JSON.

    Args:
        lab: the lab.
        printed: what each section of the solution printed, by its name.
    """
    return _notebook(lab, solved=True, printed=printed)


def _notebook(lab: Lab, *, solved: bool, printed: dict[str, str]) -> str:
    cells = [_text("title", f"# Lab: {lab.title}" + (", solved" if solved else ""))]
    count = 0
    for section in lab.solution().shown:
        given = section.name == GIVEN
        if posed := _markdown(task(section)):
            cells.append(_text(f"{section.name}-task", posed))
        code = body(section).strip() if solved or given else ""
        count += 1 if solved else 0
        cells.append(_code(section.name, code, count, printed.get(section.name, "")))
    notebook = v4.new_notebook(cells=cells, metadata=_METADATA)
    text: str = nbformat.writes(notebook)
    return text


_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def _text(name: str, text: str) -> NotebookNode:
    cell: NotebookNode = v4.new_markdown_cell(text, id=name)  # without an id it gets a random one
    return cell


def _code(name: str, code: str, count: int, printed: str) -> NotebookNode:
    outputs = [v4.new_output("stream", name="stdout", text=printed)] if printed else []
    cell: NotebookNode = v4.new_code_cell(
        code, id=name, execution_count=count or None, outputs=outputs
    )
    return cell


def _markdown(comment: str) -> str:
    """Turn a step's comment into Markdown: an item of a list, with what to print as code in it."""
    lines = [line.removeprefix("# ") for line in comment.splitlines()]
    labels = [line for line in lines if line.startswith(" " * 7)]
    return "\n".join([*lines[: len(lines) - len(labels)], "", *labels]).strip()
