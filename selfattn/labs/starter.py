"""A lab as plain Python files: the one a learner starts from, and the solved one."""

from collections.abc import Iterator
from itertools import takewhile

from selfattn.fresh.snippet import Section
from selfattn.labs.catalog import GIVEN, Lab


def starter(lab: Lab) -> str:
    """Give the file that a learner begins with: what is given, and each step's task."""
    parts = [_header(lab)]
    for section in lab.solution().shown:
        parts.append(section.code if section.name == GIVEN else task(section) + "\n")
    return "\n".join(parts)


def solved(lab: Lab) -> str:
    """Give the solution without the markers of its sections."""
    return "\n".join([_header(lab), *(section.code for section in lab.solution().shown)])


def task(section: Section) -> str:
    """Give the comment at the top of a section, which poses the step."""
    return "".join(takewhile(lambda line: line.startswith("#"), _lines(section)))


def body(section: Section) -> str:
    """Give the code below that comment."""
    return section.code[len(task(section)) :]


def _lines(section: Section) -> Iterator[str]:
    return iter(section.code.splitlines(keepends=True))


def _header(lab: Lab) -> str:
    return (
        f'"""Lab: {lab.title}.\n\n'
        "Each comment is a step. Print each line as it is given there: the label, a colon, the\n"
        "values. Other lines do not matter.\n\n"
        f"    selfattn lab check {lab.name}.py\n"
        '"""\n'
    )
